"""Transforms of numbers that treat every value alike, or every position of the last axis: by sample and by column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.columns import BytesColumn, Column, Ragged
from bushel.errors import MissingName, SchemaMismatch
from bushel.records import Sample
from bushel.transforms.protocol import Draw
from bushel.transforms.values import array_of

__all__ = ["Elementwise", "Floats", "by_position", "change_column", "columns_by_position", "line_up", "numbers_column"]

Floats = NDArray[np.float64]

_VARIES = "Where lists vary in length, take all their values together: each = false"


class Elementwise(msgspec.Struct, frozen=True):
    """A transform of the numbers of one feature. A sample that lacks the feature is left as it is."""

    def change(self, values: NDArray[Any]) -> NDArray[Any]:
        """The values of any number of samples, changed; positions are along the last axis."""
        raise NotImplementedError

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Change the values of one sample."""
        feature: str = self.feature  # type: ignore[attr-defined]
        if feature not in sample:
            return sample
        return {**sample, feature: self.change(array_of(sample, feature))}

    def apply_columns(self, columns: dict[str, Column]) -> dict[str, Column]:
        """Change the values of many samples."""
        feature: str = self.feature  # type: ignore[attr-defined]
        return {**columns, feature: change_column(numbers_column(columns, feature), self.change)}


def numbers_column(columns: dict[str, Column], feature: str) -> NDArray[Any] | Ragged:
    """A column that must be numbers."""
    if feature not in columns:
        raise MissingName("feature", feature, columns, where="transform")
    column = columns[feature]
    values = column.values if isinstance(column, Ragged) else column
    if isinstance(column, BytesColumn) or not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
        raise SchemaMismatch("expected numbers, got text", at=feature)
    return column


def change_column(column: NDArray[Any] | Ragged, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Column:
    """A column with its values changed, and its rows as long as they were."""
    if not isinstance(column, Ragged):
        return change(column)
    assert isinstance(column.values, np.ndarray)
    width = _width(column)
    flat = change(column.values.reshape(-1, width)).reshape(-1) if width > 1 else change(column.values)
    return Ragged(flat, column.row_splits, column.present)


def _width(column: Ragged) -> int:
    """How many values each row has that has any, where they are as many and lie in one line; else 1."""
    assert isinstance(column.values, np.ndarray)
    if column.values.ndim > 1:
        return 1
    lengths = column.lengths if column.present is None else column.lengths[column.present]
    return int(lengths[0]) if len(lengths) and lengths[0] > 0 and (lengths == lengths[0]).all() else 1


def line_up(values: tuple[float, ...]) -> Any:
    """Statistics of one position or several, to compute with values whose last axis is these positions."""
    return np.array(values) if len(values) != 1 else np.float64(values[0])


def by_position(samples: Sequence[Sample], feature: str, *, each: bool) -> Floats | None:
    """The values of samples that have the feature, one column a position; None where none has it."""
    arrays = [array_of(sample, feature) for sample in samples if feature in sample]
    if not arrays:
        return None
    if not each:
        return np.concatenate([array.reshape(-1) for array in arrays]).astype(np.float64).reshape(-1, 1)
    widths = {array.shape[-1] if array.ndim else 1 for array in arrays}
    if len(widths) > 1:
        raise _varies(feature, widths)
    return np.concatenate([array.reshape(-1, *widths) for array in arrays]).astype(np.float64)


def columns_by_position(columns: dict[str, Column], feature: str, *, each: bool) -> Floats | None:
    """As `by_position`, of columns."""
    column = numbers_column(columns, feature)
    values = column.values if isinstance(column, Ragged) else column
    assert isinstance(values, np.ndarray)
    if not len(values):
        return None
    if not each:
        return values.astype(np.float64).reshape(-1, 1)
    if not isinstance(column, Ragged) or values.ndim > 1:
        width = values.shape[-1] if values.ndim > 1 else 1
        return values.astype(np.float64).reshape(-1, width)
    width = _width(column)
    if width == 1 and int(column.lengths.max(initial=0)) > 1:
        raise _varies(feature, set(column.lengths.tolist()))
    return values.astype(np.float64).reshape(-1, width)


def check_width(one: int, other: int, feature: str) -> None:
    """Refuse to put together what was learnt of rows that differ in their positions."""
    if one != other:
        raise _varies(feature, {one, other})


def _varies(feature: str, widths: set[int]) -> SchemaMismatch:
    some = " and ".join(str(width) for width in sorted(widths)[:2])
    return SchemaMismatch(f"rows have {some} positions, and each position is fitted alone", at=feature, help=[_VARIES])
