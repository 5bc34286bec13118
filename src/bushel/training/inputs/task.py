"""What is to be predicted, told from the label."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Ragged
from bushel.data.schema import FLOAT_KIND, Schema
from bushel.errors import MissingName, SchemaMismatch
from bushel.reading import Split
from bushel.records.manifest import Manifest
from bushel.training.inputs.split_roles import Parts
from bushel.training.options import TaskName

__all__ = ["Kind", "Task", "encode_labels", "label_of", "task_of"]

Kind: TypeAlias = Literal["binary", "multi_class", "multi_label", "regression"]

MOST_CLASSES = 10_000
_USUAL = ("label", "image/class/label", "class", "target", "y")


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be predicted.

    `classes` are names by code. `values` are what records hold, where that is not the code itself.
    """

    kind: Kind
    label: str
    classes: list[str] = []
    values: list[int | str] | None = None
    width: int = 1  # numbers to be predicted, of a regression
    counts: list[int] = []  # records of each class in the train split

    @property
    def is_classes(self) -> bool:
        """Whether each record has exactly one class."""
        return self.kind in ("binary", "multi_class")

    @property
    def outputs(self) -> int:
        """How many numbers a model gives a record."""
        if self.kind == "regression":
            return self.width
        return 1 if self.kind == "binary" else len(self.classes)


def label_of(schema: Schema, split: Split, manifest: Manifest | None, asked: str | None) -> str:
    """The feature that is the label."""
    if asked is not None:
        if asked not in schema:
            raise MissingName("feature", asked, schema, where=split.paths[0])
        return asked
    if manifest is not None and manifest.label is not None:
        return manifest.label.feature
    found = next((name for name in (split.label, *_USUAL) if name in schema), None)
    if found is None:
        raise MissingName("label", split.label, schema, where=split.paths[0])
    return found


def task_of(parts: Parts, *, label: str | None = None, task: TaskName | None = None) -> Task:
    """Tell the task from the manifest, or from the labels of all splits."""
    schema, manifest = parts.train.schema, parts.data.manifest
    name = label_of(schema, parts.train, manifest, label)
    declared = manifest.label if manifest is not None and manifest.label and manifest.label.feature == name else None
    kind = task or (declared.task if declared is not None else None) or _guess(parts.train, schema, name)
    if kind == "regression":
        width = int(np.prod([size or 1 for size in schema[name].shape])) or 1
        return Task(kind="regression", label=name, width=width)
    names = list(declared.names) if declared is not None else []
    made = _multi_label(parts, name, names) if kind == "multi_label" else _classes(parts, name, names)
    return msgspec.structs.replace(made, counts=_count(made, parts.train))


def _guess(split: Split, schema: Schema, name: str) -> TaskName:
    feature = schema[name]
    if feature.is_ragged or feature.sequence:
        return "multi_label"
    if feature.kind == FLOAT_KIND or feature.dtype.startswith("float"):
        return "regression" if not _is_hot(split, name) else "multi_label"
    if feature.shape not in ((), (1,)):
        return "multi_label"
    values = split.values(name)
    if isinstance(values, BytesColumn):
        return "classification"
    return "classification" if len(np.unique(_flat(name, values))) <= max(20, len(values) // 4) else "regression"


def _is_hot(split: Split, name: str) -> bool:
    """Whether labels are rows of zeros and ones."""
    if split.schema[name].shape in ((), (1,)):
        return False
    values = split.values(name)
    return isinstance(values, np.ndarray) and bool(np.isin(values, (0, 1)).all())


def _flat(name: str, column: Any) -> Any:
    values = column.values if isinstance(column, Ragged) else column
    if isinstance(values, BytesColumn):
        return values
    if isinstance(values, Ragged):
        raise SchemaMismatch("labels must be numbers or text, got lists of lists", at=name)
    return values.reshape(-1)


def _classes(parts: Parts, name: str, names: list[str]) -> Task:
    seen = _distinct(parts, name)
    if isinstance(seen, list):
        return Task(kind=_kind(len(seen)), label=name, classes=seen, values=list(seen))
    if names:
        return Task(kind=_kind(len(names)), label=name, classes=names)
    low, high = int(seen.min()), int(seen.max())
    if low >= 0 and high < max(2, 2 * len(seen)):
        return Task(kind=_kind(high + 1), label=name, classes=[str(code) for code in range(max(2, high + 1))])
    values = seen.tolist()
    return Task(kind=_kind(len(values)), label=name, classes=[str(value) for value in values], values=values)


def _kind(classes: int) -> Kind:
    return "binary" if classes <= 2 else "multi_class"


def _distinct(parts: Parts, name: str) -> NDArray[np.int64] | list[str]:
    splits = [split for split in (parts.train, parts.val, parts.test) if split is not None]
    columns = [_flat(name, split.values(name)) for split in splits]
    found: NDArray[np.int64] | list[str]
    if isinstance(columns[0], BytesColumn):
        found = sorted({_text(value) for column in columns for value in column})
    else:
        found = np.unique(np.concatenate(columns)).astype(np.int64)
    if len(found) > MOST_CLASSES:
        raise SchemaMismatch(
            f"{len(found):,} different labels are too many to be classes", at=name, help=["Use --task regression."]
        )
    if not len(found):
        raise SchemaMismatch("no record has a label", at=name)
    return found


def _multi_label(parts: Parts, name: str, names: list[str]) -> Task:
    feature = parts.train.schema[name]
    if not feature.is_ragged and feature.shape not in ((), (1,)) and _is_hot(parts.train, name):
        width = int(np.prod([size or 1 for size in feature.shape]))
        return Task(kind="multi_label", label=name, classes=names or [str(code) for code in range(width)])
    seen = _distinct(parts, name)
    if isinstance(seen, list):
        return Task(kind="multi_label", label=name, classes=seen, values=list(seen))
    return Task(kind="multi_label", label=name, classes=names or [str(code) for code in range(int(seen.max()) + 1)])


def _count(task: Task, split: Split) -> list[int]:
    labels = encode_labels(task, split.values(task.label))
    if task.kind == "multi_label":
        return [int(count) for count in labels.sum(axis=0)]
    return [int(count) for count in np.bincount(labels, minlength=len(task.classes))]


def encode_labels(task: Task, column: Any) -> NDArray[Any]:
    """Labels as a loss takes them: codes, rows of zeros and ones, or numbers.

    A label that is no class is an error that names it.
    """
    if task.kind == "regression":
        values = _flat(task.label, column)
        return np.asarray(values, np.float32).reshape(-1, task.width)
    if task.kind == "multi_label":
        return _hot(task, column)
    return _codes(task, _flat(task.label, column))


def _codes(task: Task, values: Any) -> NDArray[np.int64]:
    if task.values is None:
        codes = np.asarray(values, np.int64)
        bad = np.flatnonzero((codes < 0) | (codes >= len(task.classes)))
    else:
        is_text = isinstance(values, BytesColumn)
        known = np.array(task.values, object if is_text else np.int64)
        given = np.array([_text(value) for value in values], object) if is_text else np.asarray(values, np.int64)
        codes = np.minimum(np.searchsorted(known, given), len(known) - 1).astype(np.int64)
        bad = np.flatnonzero(known[codes] != given)
    if len(bad):
        raise SchemaMismatch(f"label {values[int(bad[0])]!r} is none of the {len(task.classes)} classes", at=task.label)
    return codes


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def _hot(task: Task, column: Any) -> NDArray[np.float32]:
    if isinstance(column, np.ndarray) and column.shape[1:] == (len(task.classes),):
        return column.astype(np.float32)
    out = np.zeros((len(column), len(task.classes)), np.float32)
    lengths = column.lengths if isinstance(column, Ragged) else np.full(len(column), _width(column))
    codes = _codes(task, _flat(task.label, column))
    out[np.repeat(np.arange(len(column)), lengths), codes] = 1.0
    return out


def _width(column: Any) -> int:
    return int(np.prod(column.shape[1:])) if isinstance(column, np.ndarray) else 1
