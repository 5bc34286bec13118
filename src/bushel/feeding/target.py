"""What a model predicts: labels as its loss takes them, and its outputs as answers."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Ragged
from bushel.errors import SchemaMismatch

__all__ = ["OutputKind", "Target", "TargetKind", "encode_labels", "flat_labels", "output_kind", "probabilities", "text"]

TargetKind: TypeAlias = Literal["binary", "multi_class", "multi_label", "regression"]
OutputKind: TypeAlias = Literal["probabilities", "logits", "numbers"]


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be predicted.

    `classes` are names by code. `values` are what records hold, where that is not the code itself.
    """

    kind: TargetKind
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
        """How many numbers a model gives for each record."""
        if self.kind == "regression":
            return self.width
        return 1 if self.kind == "binary" else len(self.classes)

    @property
    def words(self) -> str:
        """The kind, to be read."""
        return self.kind.replace("_", "-")


def encode_labels(target: Target, column: Any) -> NDArray[Any]:
    """Labels as numbers: codes, rows of zeros and ones, or what is to be predicted itself.

    A label that is not one of the classes is an error that names it.
    """
    if target.kind == "regression":
        return np.asarray(flat_labels(target.label, column), np.float32).reshape(-1, target.width)
    if target.kind == "multi_label":
        return _hot(target, column)
    return _codes(target, flat_labels(target.label, column))


def flat_labels(name: str, column: Any) -> Any:
    """The labels of all rows, one after the other."""
    values = column.values if isinstance(column, Ragged) else column
    if isinstance(values, BytesColumn):
        return values
    if isinstance(values, Ragged):
        raise SchemaMismatch("labels must be numbers or text, got lists of lists", at=name)
    return values.reshape(-1)


def _codes(target: Target, values: Any) -> NDArray[np.int64]:
    if target.values is None:
        codes = np.asarray(values, np.int64)
        bad = np.flatnonzero((codes < 0) | (codes >= len(target.classes)))
    else:
        is_text = isinstance(values, BytesColumn)
        known = np.array(target.values, object if is_text else np.int64)
        given = np.array([text(value) for value in values], object) if is_text else np.asarray(values, np.int64)
        codes = np.minimum(np.searchsorted(known, given), len(known) - 1).astype(np.int64)
        bad = np.flatnonzero(known[codes] != given)
    if len(bad):
        value = values[int(bad[0])]
        raise SchemaMismatch(f"label {value!r} is none of the {len(target.classes)} classes", at=target.label)
    return codes


def text(value: bytes) -> str:
    """A label as text, whatever its bytes."""
    return value.decode("utf-8", "backslashreplace")


def _hot(target: Target, column: Any) -> NDArray[np.float32]:
    if isinstance(column, np.ndarray) and column.shape[1:] == (len(target.classes),):
        return column.astype(np.float32)
    out = np.zeros((len(column), len(target.classes)), np.float32)
    width = int(np.prod(column.shape[1:])) if isinstance(column, np.ndarray) else 1
    lengths = column.lengths if isinstance(column, Ragged) else np.full(len(column), width)
    codes = _codes(target, flat_labels(target.label, column))
    out[np.repeat(np.arange(len(column)), lengths), codes] = 1.0
    return out


def output_kind(kind: str | None, outputs: NDArray[Any]) -> OutputKind:
    """Whether a model gives probabilities or logits, as some of its outputs show: for models that do not say."""
    if kind in (None, "regression"):
        return "numbers"
    rows = np.asarray(outputs, np.float32).reshape(len(outputs), -1)
    is_inside = bool(rows.size == 0 or (rows.min() >= 0 and rows.max() <= 1 + 1e-3))
    is_alone = kind == "multi_label" or rows.shape[1] == 1
    return "probabilities" if is_inside and (is_alone or _sums_to_1(rows)) else "logits"


def _sums_to_1(rows: NDArray[Any]) -> bool:
    return bool(np.allclose(rows.sum(axis=1), 1, atol=1e-2))


def probabilities(kind: str | None, outputs: NDArray[Any], given: OutputKind) -> NDArray[Any]:
    """What a model gives, as probabilities by class; numbers of a regression as they are."""
    rows = np.asarray(outputs, np.float32).reshape(len(outputs), -1)
    if kind in (None, "regression"):
        return rows
    if kind == "multi_label" or rows.shape[1] == 1:
        shares = rows if given == "probabilities" else 1 / (1 + np.exp(-np.clip(rows, -60, 60)))
        return np.asarray(shares if kind == "multi_label" else np.concatenate([1 - shares, shares], axis=1))
    if given == "probabilities":
        return rows
    shifted = np.exp(rows - rows.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))
