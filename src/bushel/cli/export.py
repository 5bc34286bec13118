"""`export`: a run or a dataset for other programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from bushel.cli.flags import Grouped, flag, json_flag, trust_flag

__all__ = ["export"]


def _export_run(source: str, out: str, format: str, options: dict[str, Any]) -> list[str]:
    """Export the model of a run; returns what to print."""
    from bushel.training.exporting import export_run

    exported = export_run(source, out, format=format, **options)  # type: ignore[arg-type]
    lines = []
    for signature in exported.signatures:
        arguments = ", ".join(f"{name}: {what}" for name, what in signature.inputs.items())
        verified = "verified" if signature.is_verified else "not verified"
        lines.append(f"{signature.name}({arguments}) -> {', '.join(signature.outputs)}  [{verified}]")
    for note in exported.notes:
        click.echo(f"note: {note}", err=True)
    return lines


# The formats of a run and of a dataset. To add one, add its name and a function that takes the source, the
# target, the name of the format and the options, and returns the lines to print.
_RUN_FORMATS: dict[str, Callable[[str, str, str, dict[str, Any]], list[str]]] = {
    "savedmodel": _export_run,
    "onnx": _export_run,
    "litert": _export_run,
}
_DATASET_FORMATS: dict[str, Callable[[str, str, str, dict[str, Any]], list[str]]] = {}


@click.command(cls=Grouped)
@click.argument("source", metavar="RUN")
@click.argument("out")
@trust_flag
@flag(
    "--format",
    "format_",
    metavar="NAME",
    default="savedmodel",
    help="savedmodel, onnx or litert  [default: savedmodel]",
)
@flag("--no-verify", "verify", is_flag=True, default=True, flag_value=False, help="Skip the check with golden inputs")
@flag("--overwrite", is_flag=True, help="Replace OUT")
@json_flag
def export(source: str, out: str, format_: str, verify: bool, overwrite: bool, as_json: bool) -> None:
    """Export a trained model for programs without bushel, with its preparation inside.

    \b
      bushel export runs/cats serving/cats/1
      bushel export runs/cats cats-onnx --format onnx
      bushel export runs/cats cats-phone --format litert

    RUN is the folder that `bushel train` made. A savedmodel has signatures for raw samples (bytes of images, texts,
    columns), for serialised Examples and for tensors. ONNX and LiteRT take decoded and resized images, and no text.

    A process without bushel then answers the golden inputs of the contract, and must give what training gave.

    Writes OUT: the model, and export.json with its signatures and classes.

    Exit: 0 exported, 2 wrong arguments, a model that the format cannot hold, or one that answers differently.
    """
    is_run = (Path(source) / "run.json").is_file()
    known = _RUN_FORMATS if is_run or not _DATASET_FORMATS else _DATASET_FORMATS
    if format_ not in known:
        kind = "run" if known is _RUN_FORMATS else "dataset"
        raise click.UsageError(f"--format of a {kind} must be one of {', '.join(known)}; got {format_!r}")
    lines = known[format_](source, out, format_, {"verify": verify, "overwrite": overwrite})
    if as_json:
        click.echo((Path(out) / "export.json").read_text().rstrip())
        return
    for line in lines:
        click.echo(line)
    click.echo(f"\nexported: {out}")
