"""The folder of a run: what it was told, what came out, and the model."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import msgspec

from bushel.checking import Finding
from bushel.errors import FileProblem, FormatError
from bushel.storage import write_whole
from bushel.training.inputs.task import Task
from bushel.training.loop.checkpoints import CHECKPOINT
from bushel.training.options import Options
from bushel.training.verdict.verdict import Verdict

__all__ = [
    "MODEL",
    "RUN",
    "Run",
    "Trained",
    "begin_folder",
    "make_folder",
    "plain",
    "read_run",
    "write_json",
    "write_table",
]


RUN = "run.json"
MODEL = "model.keras"
FORMAT = 1


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was told: all that a resumed run must have in common with it."""

    data: list[str]
    options: dict[str, Any]
    task: Task
    preparation: dict[str, Any]
    compiled: dict[str, Any]
    records: dict[str, int]
    versions: dict[str, str]
    format: int = FORMAT


def begin_folder(out: Path, *, resume: bool, overwrite: bool) -> None:
    """See that a run can be begun in a folder, or go on in it."""
    has_run = (out / RUN).exists()
    if resume:
        if not (out / CHECKPOINT).is_file():
            raise FileProblem(out, "there is no checkpoint to go on from", help=["Leave --resume out to begin."])
        return
    if out.exists() and not out.is_dir():
        raise FileProblem(out, "is a file, not a folder")
    if has_run and not overwrite:
        raise FileProblem(
            out, "there is a run in this folder already", help=["Go on with it: --resume; or begin anew: --overwrite."]
        )


def make_folder(out: Path) -> None:
    """Make the folder; what an earlier run left there goes."""
    import shutil

    out.mkdir(parents=True, exist_ok=True)
    for name in (RUN, MODEL, CHECKPOINT, "contract.json", "report.html"):
        (out / name).unlink(missing_ok=True)
    for path in [*out.glob("metrics.*"), *out.glob("history.*"), *out.glob("classes.*"), *out.glob("confusion.*")]:
        path.unlink()
    shutil.rmtree(out / "logs", ignore_errors=True)


def read_run(folder: Path) -> Run:
    """What a run was told."""
    path = folder / RUN
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise FileProblem(folder, f"there is no {RUN}, so this is not the folder of a run") from None
    try:
        run = msgspec.json.decode(text, type=Run)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise FormatError(path, f"not a run: {error}") from None
    if run.format != FORMAT:
        raise FormatError(path, f"run of format {run.format}; this bushel reads format {FORMAT}")
    return run


def same_run(folder: Path, run: Run) -> None:
    """Refuse to go on with a run that was told something else, naming the first difference."""
    before = read_run(folder)
    now: dict[str, Any] = plain(msgspec.to_builtins(run))
    old: dict[str, Any] = plain(msgspec.to_builtins(before))
    for part in ("options", "task", "records", "preparation"):
        if now[part] != old[part]:
            names = [name for name in {**now[part], **old[part]} if now[part].get(name) != old[part].get(name)]
            name = sorted(names)[0]
            raise FileProblem(
                folder, f"the run was begun with {part} {name} {old[part].get(name)!r}, not {now[part].get(name)!r}"
            )


def options_to_json(options: Options) -> dict[str, Any]:
    """Options as plain values; a model or a function by its name."""
    fields = msgspec.structs.asdict(options)
    model = fields["model"]
    if model is not None and not isinstance(model, str):
        fields["model"] = str(model) if isinstance(model, Path) else getattr(model, "__name__", type(model).__name__)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


def plain(value: Any) -> Any:
    """Values that JSON can hold: numbers that are none become None."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value


def write_json(path: Path, value: Any) -> None:
    """JSON to read by people too, whole or not at all."""
    with write_whole(path, sync=False) as file:
        file.write(json.dumps(plain(value), indent=2).encode() + b"\n")


def write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    """The same rows as CSV; what a row lacks is empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with write_whole(path, sync=False) as file:
        file.write(text.getvalue().encode())


class Trained(msgspec.Struct, frozen=True, kw_only=True):
    """What came out of a run; everything is in its folder too."""

    folder: Path
    verdict: Verdict
    findings: list[Finding]
    metrics: dict[str, dict[str, float]]  # by split
    history: list[dict[str, Any]]
    seconds: dict[str, float]
