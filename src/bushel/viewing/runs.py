"""Runs of `bushel train`: their results as they were written, compared, and the records that they were judged by."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.errors import FormatError
from bushel.storage import AnyPath, as_path, read_inside
from bushel.viewing.opened import OpenedSplit

__all__ = [
    "LoadedRun",
    "Predicted",
    "answers_for",
    "confusion_of",
    "differing_options",
    "feeding_options",
    "is_run",
    "load_run",
    "predicted_rows",
]

RUN = "run.json"
_MOST_BYTES = 64 << 20  # of a file of a run
_MOST_CLASSES = 50  # of a confusion matrix


@dataclass(frozen=True)
class Predicted:
    """What a run predicted for each record that judged it."""

    split: str
    shards: list[str]
    columns: dict[str, NDArray[Any]]  # shard, record, loss; label, predicted and probability where there are

    def __len__(self) -> int:
        return len(self.columns["loss"])


@dataclass
class LoadedRun:
    """One run."""

    folder: Path
    name: str
    facts: dict[str, Any]  # run.json
    metrics: dict[str, Any] = field(default_factory=dict)  # metrics.json
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def classes(self) -> list[str]:
        """The names of the classes."""
        return [str(name) for name in self.facts.get("task", {}).get("classes", [])]

    @property
    def summary(self) -> str:
        """The verdict in a line."""
        return str(self.metrics.get("verdict", {}).get("summary", "the run is not finished"))

    @cached_property
    def predicted(self) -> Predicted | None:
        """What it predicted, if it was written."""
        path = self.folder / "predictions.npz"
        if not path.is_file():
            return None
        try:
            with np.load(path, allow_pickle=False) as file:
                columns = {name: file[name] for name in file.files}
            about = msgspec.json.decode(columns.pop("about").tobytes())
            found = Predicted(str(about["split"]), [str(shard) for shard in about["shards"]], columns)
            count = len(found)
        except (OSError, ValueError, LookupError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise FormatError(path, f"not the predictions of a run: {error}") from None
        if any(column.shape != (count,) for column in columns.values()) or not {"shard", "record"} <= set(columns):
            raise FormatError(path, "not the predictions of a run: its columns differ in length")
        return found

    def to_json(self) -> dict[str, Any]:
        """What a page shows of it."""
        verdict = self.metrics.get("verdict", {})
        return {
            "name": self.name,
            "folder": str(self.folder),
            "data": self.facts.get("data", []),
            "task": self.facts.get("task", {}).get("kind", ""),
            "label": self.facts.get("task", {}).get("label", ""),
            "classes": self.classes,
            "records": self.facts.get("records", {}),
            "summary": self.summary,
            "learned": bool(verdict.get("learned")),
            "metrics": self.metrics.get("metrics", {}),
            "findings": self.metrics.get("findings", []),
            "history": self.history,
            "options": self.facts.get("options", {}),
            "best_epoch": self.metrics.get("best_epoch"),
            "has_predictions": (self.folder / "predictions.npz").is_file(),
        }


def is_run(path: AnyPath) -> bool:
    """Whether a path is the folder of a run."""
    return (as_path(path) / RUN).is_file()


def load_run(folder: AnyPath, name: str = "") -> LoadedRun:
    """Read the results of a run; those of one that is not finished are empty."""
    place = as_path(folder)
    facts = _read(place / RUN)
    if not isinstance(facts, dict):
        raise FormatError(place / RUN, "not a run")
    metrics, history = (_read(place / name) if (place / name).is_file() else None for name in _RESULTS)
    return LoadedRun(
        place,
        name or place.absolute().name,
        facts,
        metrics if isinstance(metrics, dict) else {},
        [row for row in history if isinstance(row, dict)] if isinstance(history, list) else [],
    )


_RESULTS = ("metrics.json", "history.json")


def _read(path: Path) -> Any:
    if path.stat().st_size > _MOST_BYTES:
        raise FormatError(path, "is too large to be part of a run")
    try:
        return json.loads(read_inside(path.parent, path.name))
    except (ValueError, RecursionError) as error:
        raise FormatError(path, f"not JSON: {error}") from None


def differing_options(runs: list[LoadedRun]) -> dict[str, list[Any]]:
    """Options that are not the same in all runs, and their values."""
    names = dict.fromkeys(name for run in runs for name in run.facts.get("options", {}))
    values = {name: [run.facts.get("options", {}).get(name) for run in runs] for name in names}
    return {name: found for name, found in values.items() if any(value != found[0] for value in found)}


def predicted_rows(run: LoadedRun, part: OpenedSplit, cell: Sequence[int]) -> list[int]:
    """Records that judged a run, those with the largest loss first; of one cell of its confusions, if asked for."""
    found = run.predicted
    if found is None:
        return []
    order = np.argsort(-found.columns["loss"], kind="stable")
    if len(cell) == 2 and "predicted" in found.columns:
        label, predicted = found.columns["label"][order], found.columns["predicted"][order]
        order = order[(label == cell[0]) & (predicted == cell[1])]
    elif len(cell) == 1 and "predicted" in found.columns:  # all mistakes
        order = order[found.columns["label"][order] != found.columns["predicted"][order]]
    firsts = part.starts_of(found.shards)
    shards, records = found.columns["shard"][order].tolist(), found.columns["record"][order].tolist()
    rows = [firsts[shard] + record for shard, record in zip(shards, records, strict=True) if shard in firsts]
    return [row for row in rows if row < len(part)]


def answers_for(run: LoadedRun, part: OpenedSplit, rows: Sequence[int]) -> dict[int, dict[str, Any]]:
    """What a run predicted for records, by their numbers."""
    found = run.predicted
    if found is None:
        return {}
    firsts = part.starts_of(found.shards)
    known = np.array([firsts.get(shard, -1) for shard in range(len(found.shards))], np.int64)
    starts = known[found.columns["shard"]]
    places = np.where(starts >= 0, starts + found.columns["record"], -1)
    classes, answers = run.classes, {}
    for at in np.flatnonzero(np.isin(places, np.asarray(rows, np.int64))).tolist():
        said = {name: found.columns[name][at].item() for name in found.columns if name not in ("shard", "record")}
        for name in ("label", "predicted"):
            if classes and name in said and 0 <= int(said[name]) < len(classes):
                said[name] = classes[int(said[name])]
        answers[int(places[at])] = said
    return answers


def confusion_of(run: LoadedRun) -> list[list[int]]:
    """How often each class was taken for each; nothing if there are no classes, or too many to show."""
    found = run.predicted
    if found is None or not run.classes or "predicted" not in found.columns or len(run.classes) > _MOST_CLASSES:
        return []
    table = np.zeros((len(run.classes), len(run.classes)), int)
    pairs = np.stack([found.columns[name].astype(int) for name in ("label", "predicted")])
    known = ((pairs >= 0) & (pairs < len(run.classes))).all(axis=0)  # what a file says may be no class
    np.add.at(table, (pairs[0][known], pairs[1][known]), 1)
    return [[int(times) for times in row] for row in table]


def feeding_options(run: LoadedRun) -> dict[str, str]:
    """How a run fed images, as an address would say it."""
    options = run.facts.get("options", {})
    size = options.get("image_size")
    stated = {"augment": options.get("augment") or "", "range": options.get("range") or ""}
    if isinstance(size, list) and size:
        stated["size"] = str(size[0])
    return {name: str(value) for name, value in stated.items() if value or name == "augment"}
