"""The folder of a run: its options, its results, and the model."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.checking import Finding
from bushel.errors import FileProblem, FormatError, printable
from bushel.feeding.preparation import Target
from bushel.printing import escape, html_table
from bushel.reading import Split
from bushel.storage import check_own_folder, read_inside, write_whole
from bushel.training.loop.framework import generator_state, restore_generator
from bushel.training.options import Options
from bushel.training.predictions import Predictions
from bushel.training.verdict.metrics import metric_table
from bushel.training.verdict.verdict import Verdict

__all__ = [
    "CHECKPOINT",
    "MODEL",
    "PREDICTIONS",
    "RUN",
    "TREES",
    "RunFile",
    "State",
    "Trained",
    "begin_folder",
    "load_checkpoint",
    "load_state",
    "make_folder",
    "options_of",
    "plain",
    "read_run",
    "same_run",
    "save_checkpoint",
    "save_predictions",
    "save_state",
    "write_json",
    "write_table",
]


RUN = "run.json"
MODEL = "model.keras"
TREES = "model.npz"
CHECKPOINT = "checkpoint.npz"
PREDICTIONS = "predictions.npz"
FORMAT = 1


class RunFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `run.json`: everything that a resumed run must have in common with the original one."""

    data: list[str]
    options: dict[str, Any]
    task: Target
    preparation: dict[str, Any]
    compiled: dict[str, Any]
    records: dict[str, int]
    versions: dict[str, str]
    format: int = FORMAT


def begin_folder(out: Path, *, resume: bool, overwrite: bool) -> None:
    """Check that a run can start in a folder, or continue there."""
    check_own_folder(out / "logs")
    if resume:
        if not (out / CHECKPOINT).is_file():
            raise FileProblem(out, "there is no checkpoint to continue from", help=["Start the run without --resume."])
        return
    if out.exists() and not out.is_dir():
        raise FileProblem(out, "is a file, not a folder")
    # A start that failed left neither of these, and can be replaced.
    if not overwrite and any((out / name).exists() for name in (CHECKPOINT, MODEL, TREES)):
        raise FileProblem(
            out,
            "there is a run in this folder already",
            help=["To continue it: --resume", "To start another one: --out RUN; overwrite replaces the old one."],
        )


def make_folder(out: Path) -> None:
    """Make the folder, and remove what an earlier run left there."""
    out.mkdir(parents=True, exist_ok=True)
    for name in (RUN, MODEL, TREES, CHECKPOINT, PREDICTIONS, "contract.json", "report.html"):
        (out / name).unlink(missing_ok=True)
    for path in [*out.glob("metrics.*"), *out.glob("history.*"), *out.glob("classes.*"), *out.glob("confusion.*")]:
        path.unlink()
    shutil.rmtree(out / "logs", ignore_errors=True)


def read_run(folder: Path) -> RunFile:
    """Read `run.json`."""
    path = folder / RUN
    try:
        text = read_inside(folder, RUN)
    except FileNotFoundError:
        raise FileProblem(folder, f"there is no {RUN}, so this is not the folder of a run") from None
    try:
        run = msgspec.json.decode(text, type=RunFile)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise FormatError(path, f"not a run: {error}") from None
    if run.format != FORMAT:
        raise FormatError(path, f"run of format {run.format}; this bushel reads format {FORMAT}")
    return run


def options_of(run: RunFile, folder: Path, *, model: Any = None) -> Options:
    """The options that a run was started with.

    A run may come from a stranger, so a Python file that it names is not run: the caller names it again, as `model`.
    """
    try:
        options = msgspec.convert(run.options, Options, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        raise FormatError(folder / RUN, f"not the options of a run: {error}") from None
    if isinstance(options.model, str) and ".py:" in options.model and model != options.model:
        what = f"its model is made by {printable(options.model)}, which is code, and a run does not say what code runs"
        raise FileProblem(folder / RUN, what, help=[f"To run that file: --model {printable(options.model)}"])
    return options


def same_run(folder: Path, run: RunFile) -> None:
    """Refuse to continue a run with other options or data, and name the first difference. Epochs may be added."""
    before = read_run(folder)
    now: dict[str, Any] = plain(msgspec.to_builtins(run))
    old: dict[str, Any] = plain(msgspec.to_builtins(before))
    for part in ("options", "task", "records", "preparation"):
        names = [name for name in {**now[part], **old[part]} if now[part].get(name) != old[part].get(name)]
        names = [name for name in sorted(names) if part != "options" or not _may_change(name, now[part], old[part])]
        if names:
            was, is_now = old[part].get(names[0]), now[part].get(names[0])
            raise FileProblem(
                folder,
                f"the run was started with {part} {names[0]} {was!r}, not {is_now!r}",
                help=["Leave out what you want as before: resume takes it from the run."],
            )


def _may_change(name: str, now: dict[str, Any], old: dict[str, Any]) -> bool:
    """Whether an option may differ from the one that the run was started with."""
    is_longer = name == "epochs" and now[name] > old.get(name, 0)
    return is_longer or name in ("threads", "tensorboard", "checkpoint_every", "ignore", "preflight")


def options_to_json(options: Options) -> dict[str, Any]:
    """Options as plain values; models and functions by name."""
    fields = msgspec.structs.asdict(options)
    model = fields["model"]
    if model is not None and not isinstance(model, str):
        fields["model"] = str(model) if isinstance(model, Path) else getattr(model, "__name__", type(model).__name__)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


def plain(value: Any) -> Any:
    """The same as values that JSON can hold; NaN and infinity become None."""
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
    """Write readable JSON, completely or not at all."""
    with write_whole(path, sync=False) as file:
        file.write(json.dumps(plain(value), indent=2).encode() + b"\n")


def write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows as CSV; missing values are empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _inert(value) for name, value in row.items()} for row in rows)
    with write_whole(path, sync=False) as file:
        file.write(text.getvalue().encode())


def _inert(value: Any) -> Any:
    """A value that no spreadsheet mistakes for a formula: class names come from the data."""
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if is_formula else value


class Trained(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run; all of it is also in the run's folder."""

    folder: Path
    verdict: Verdict
    findings: list[Finding]
    metrics: dict[str, dict[str, float]]  # by split
    history: list[dict[str, Any]]
    seconds: dict[str, float]

    def __repr__(self) -> str:
        return f"Trained({str(self.folder)!r}: {self.verdict.summary})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.verdict.summary)}</p>{html_table(*metric_table(self.metrics))}"

    def to_json(self) -> dict[str, Any]:
        """The shape that `train --json` prints."""
        return {
            "run": str(self.folder),
            "verdict": msgspec.to_builtins(self.verdict),
            "metrics": self.metrics,
            "findings": [finding.to_json() for finding in self.findings],
            "seconds": self.seconds,
        }


class State(msgspec.Struct, kw_only=True):
    """Where a run stands, but for the numbers of model and optimiser."""

    epoch: int = 0
    step: int = 0  # of all epochs
    feed: dict[str, int] = {}  # after the last batch that was learned
    sums: dict[str, float] = {}  # of the epoch so far
    history: list[dict[str, Any]] = []
    best_loss: float | None = None  # the lowest, which need not be that of the best epoch
    lowest_epoch: int = 0
    best_epoch: int = 0
    stale: int = 0  # epochs since the score or the loss was best
    seconds: dict[str, float] = {}
    watched: dict[str, Any] = {}
    stopped: str | None = None  # why, if it ended before its last epoch
    is_over: bool = False
    frozen_epochs: int = 0  # in which layers with pretrained weights stay as they are, at most
    is_unfrozen: bool = False


def save_checkpoint(folder: Path, model: Any, state: State, best: list[NDArray[Any]] | None) -> None:
    """Write weights, seeds of random layers, the optimiser, the best weights and the state."""
    arrays = {f"model/{i}": np.asarray(variable) for i, variable in enumerate(model.variables)}
    arrays |= {f"optimiser/{i}": np.asarray(variable) for i, variable in enumerate(model.optimizer.variables)}
    arrays |= {f"best/{i}": array for i, array in enumerate(best or [])}
    arrays |= generator_state()
    arrays["state"] = np.frombuffer(msgspec.json.encode(state), np.uint8)
    with write_whole(folder / CHECKPOINT) as file:
        np.savez(cast("Any", file), **cast("Any", arrays))


def save_state(folder: Path, state: State) -> None:
    """Write the state alone, of a run that makes its model again."""
    with write_whole(folder / CHECKPOINT) as file:
        np.savez(cast("Any", file), state=np.frombuffer(msgspec.json.encode(state), np.uint8))


def load_state(folder: Path) -> State:
    """Read the state of a checkpoint."""
    return _read_checkpoint(folder / CHECKPOINT)[0]


def _read_checkpoint(path: Path) -> tuple[State, dict[str, NDArray[Any]]]:
    try:
        with path.open("rb") as opened, np.load(opened) as file:
            arrays = {name: file[name] for name in file.files}
        return msgspec.json.decode(arrays["state"].tobytes(), type=State), arrays
    except (OSError, ValueError, LookupError, ArithmeticError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise FormatError(path, f"not a checkpoint: {error}") from None


def save_predictions(folder: Path, split: Split, target: Target, found: Predictions) -> None:
    """Write what was predicted for each record that judged the model: the answer, its probability and the loss."""
    first = split.shards.first
    shard = np.searchsorted(first, found.rows, side="right") - 1
    arrays = {"shard": shard.astype(np.int32), "record": found.rows - first[shard], "loss": found.losses}
    if target.is_classes:
        predicted = found.outputs.argmax(axis=1)
        arrays |= {"label": found.labels, "predicted": predicted, "probability": found.outputs.max(axis=1)}
    elif target.kind == "regression":
        arrays |= {"label": found.labels[:, 0], "predicted": found.outputs[:, 0]}
    about = {"split": split.name, "shards": [str(shard.path) for shard in split.shards.shards]}
    arrays["about"] = np.frombuffer(msgspec.json.encode(about), np.uint8)
    with write_whole(folder / PREDICTIONS, sync=False) as file:
        np.savez(cast("Any", file), **cast("Any", arrays))


def load_checkpoint(
    folder: Path, model: Any, prepare: Callable[[State], None]
) -> tuple[State, list[NDArray[Any]] | None]:
    """Put model and optimiser back to where a checkpoint was taken, once `prepare` has made them as they were."""
    path = folder / CHECKPOINT
    state, arrays = _read_checkpoint(path)
    prepare(state)
    for kind, variables in (("model", model.variables), ("optimiser", model.optimizer.variables)):
        _assign(path, kind, variables, arrays)
    try:
        restore_generator(arrays)
    except (RuntimeError, TypeError, LookupError) as error:
        raise FormatError(path, f"not a checkpoint: {error}") from None
    best = [arrays[f"best/{i}"] for i in range(len(model.weights))] if "best/0" in arrays else None
    return state, best


def _assign(path: Path, kind: str, variables: list[Any], arrays: dict[str, NDArray[Any]]) -> None:
    stored = sum(name.startswith(f"{kind}/") for name in arrays)
    if stored != len(variables):
        raise FormatError(path, f"it belongs to another {kind}: {stored} variables, and this one has {len(variables)}")
    for i, variable in enumerate(variables):
        array = arrays[f"{kind}/{i}"]
        if tuple(array.shape) != tuple(variable.shape):
            raise FormatError(
                path, f"it belongs to another {kind}: {variable.path} is {tuple(variable.shape)}, and was {array.shape}"
            )
        variable.assign(array)
