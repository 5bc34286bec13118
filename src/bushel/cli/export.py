"""`export`: a run or a dataset for other programs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click

from bushel.cli.flags import Grouped, ProgressState, flag, json_flag, show_progress, trust_flag

__all__ = ["export"]


class Asked(NamedTuple):
    """What the command was asked for."""

    source: str
    out: str
    format: str
    verify: bool
    split: str | None
    condition: str | None
    skip_damaged: bool
    overwrite: bool
    as_json: bool


def _export_run(asked: Asked) -> int:
    """Export the model of a run; returns the exit code."""
    from bushel.training.exporting import export_run

    format: Any = asked.format
    exported = export_run(asked.source, asked.out, format=format, verify=asked.verify, overwrite=asked.overwrite)
    for note in exported.notes:
        click.echo(f"note: {note}", err=True)
    if asked.as_json:
        click.echo((Path(asked.out) / "export.json").read_text().rstrip())
        return 0
    for signature in exported.signatures:
        arguments = ", ".join(f"{name}: {what}" for name, what in signature.inputs.items())
        verified = "verified" if signature.is_verified else "not verified"
        click.echo(f"{signature.name}({arguments}) -> {', '.join(signature.outputs)}  [{verified}]")
    click.echo(f"\nexported: {asked.out}")
    return 0


def _export_dataset(asked: Asked) -> int:
    """Export a dataset, one of its splits, or some of its records; returns the exit code."""
    import msgspec

    import bushel
    from bushel.exporting import summary_of

    opened: Any = bushel.open(asked.source)
    if asked.split is not None or asked.condition is not None:
        opened = opened.choose(asked.split)
        opened = opened.filter(asked.condition) if asked.condition else opened
    format: Any = asked.format
    with show_progress(_step) as show:
        exported = bushel.export_dataset(
            opened,
            asked.out,
            format=format,
            overwrite=asked.overwrite,
            on_fault="skip" if asked.skip_damaged else "raise",
            progress=show,
        )
    if asked.as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(exported), indent=2))
    else:
        for line in summary_of(exported):
            click.echo(line)
        click.echo(f"\nexported: {exported.path}")
    return 1 if exported.skipped else 0


def _step(done: int, total: int) -> ProgressState:
    return ProgressState("export", done, total, f"{done:,} of {total:,} records", is_end=done == total)


# What exports each format of a run and of a dataset, the default first.
_RUN_FORMATS: dict[str, Callable[[Asked], int]] = dict.fromkeys(("savedmodel", "onnx", "litert"), _export_run)
_DATASET_FORMATS: dict[str, Callable[[Asked], int]] = dict.fromkeys(
    ("parquet", "webdataset", "jsonl", "folder", "tfds"), _export_dataset
)


@click.command(cls=Grouped)
@click.argument("source", metavar="RUN|DATA")
@click.argument("out")
@flag(
    "--format",
    "format_",
    metavar="NAME",
    help="For a run: savedmodel, onnx, litert; for a dataset: parquet, webdataset, jsonl, folder, tfds  "
    "[default: the first]",
)
@flag("--overwrite", is_flag=True, help="Replace OUT")
@json_flag
@trust_flag
@flag(
    "--no-verify",
    "verify",
    is_flag=True,
    default=True,
    flag_value=False,
    group="For a run",
    help="Skip the check with golden inputs",
)
@flag("--split", metavar="NAME", group="For a dataset", help="Export only this split")
@flag(
    "--where",
    "condition",
    metavar="CONDITION",
    group="For a dataset",
    help="Export only records of one split that meet a condition",
)
@flag("--skip-damaged", is_flag=True, group="For a dataset", help="Leave out damaged records and count them")
def export(
    source: str,
    out: str,
    format_: str | None,
    overwrite: bool,
    as_json: bool,
    verify: bool,
    split: str | None,
    condition: str | None,
    skip_damaged: bool,
) -> None:
    """Export a trained model, or a dataset, for programs without bushel.

    \b
      bushel export runs/cats serving/cats/1
      bushel export runs/cats cats-onnx --format onnx
      bushel export data/ tables/
      bushel export data/ cats/ --format folder --split train --where "label == 'cat' and width >= 64"

    RUN is the folder that `bushel train` made. A savedmodel has signatures for raw samples (bytes of images, texts,
    columns), for serialised Examples and for tensors. ONNX and LiteRT take decoded and resized images, and no text.
    A process without bushel then answers the golden inputs of the contract, and must give what training gave.
    Writes OUT: the model, and export.json with its signatures and classes.

    DATA is a dataset, TFRecord files, or raw data that build takes. Labels are written by class name. An export that
    was stopped continues when the same command is run again. Writes OUT: a file per shard, or files in SPLIT/CLASS for
    a folder, and _export.json last.

    Exit: 0 exported, 1 damaged records were left out, 2 wrong arguments, unreadable input, a model that the format
    cannot hold, or one that answers differently.
    """
    is_run = (Path(source) / "run.json").is_file()
    known = _RUN_FORMATS if is_run else _DATASET_FORMATS
    chosen = format_ or next(iter(known))
    if chosen not in known:
        kind = "run" if is_run else "dataset"
        raise click.UsageError(f"--format of a {kind} must be one of {', '.join(known)}; got {chosen!r}")
    asked = Asked(source, out, chosen, verify, split, condition, skip_damaged, overwrite, as_json)
    sys.exit(known[chosen](asked))
