"""Whether values may be written: what is wrong with which rows of a column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.building.recipe import Constraint
from bushel.data.categories import hash_values
from bushel.data.columns import BytesColumn, Column, Ragged
from bushel.data.schema import IMAGE_ENCODINGS, Feature

__all__ = ["broken_rows"]

Broken = Iterator[tuple[int, str]]  # row, why
_USUAL = Constraint()


def broken_rows(name: str, feature: Feature, column: Column, constraint: Constraint = _USUAL) -> Broken:
    """Rows whose values break what the recipe asks, or what is always wrong."""
    values = column.values if isinstance(column, Ragged) else column
    if isinstance(values, BytesColumn):
        yield from _broken_texts(name, feature, column, values, constraint)
    elif isinstance(values, np.ndarray):
        yield from _broken_numbers(name, column, values, constraint)
    if isinstance(column, Ragged) and constraint.non_empty:
        there = np.ones(len(column), bool) if column.present is None else column.present
        yield from ((int(row), f"{name} is an empty list") for row in np.flatnonzero(there & (column.lengths == 0)))


def _broken_numbers(name: str, column: Column, values: NDArray[Any], constraint: Constraint) -> Broken:
    if constraint.finite and values.dtype.kind == "f" and not (is_finite := np.isfinite(values)).all():
        help = f"constraints.{name}.finite = false allows it"
        yield from _each(column, values, ~is_finite, f"{name} is {{}} ({help})")
    if constraint.min is not None and (below := values < constraint.min).any():
        yield from _each(column, values, below, f"{name} is {{}}, below {constraint.min:g}")
    if constraint.max is not None and (above := values > constraint.max).any():
        yield from _each(column, values, above, f"{name} is {{}}, above {constraint.max:g}")
    if constraint.values is not None:
        allowed = np.array([value for value in constraint.values if isinstance(value, int)])
        if not (known := np.isin(values, allowed)).all():
            yield from _each(column, values, ~known, f"{name} is {{}}, which is none of the values allowed")


def _broken_texts(name: str, feature: Feature, column: Column, values: BytesColumn, constraint: Constraint) -> Broken:
    if (constraint.non_empty or feature.encoding in IMAGE_ENCODINGS) and not (filled := values.lengths > 0).all():
        yield from _each(column, values, ~filled, f"{name} is empty")
    if feature.dtype == "str":
        bad = np.zeros(len(values), bool)
        bad[list(_undecodable(values))] = True
        yield from _each(column, values, bad, f"{name} is not UTF-8")
    if constraint.values is not None:
        allowed = hash_values(BytesColumn.of([value for value in constraint.values if isinstance(value, str)]))
        if not (known := np.isin(hash_values(values), allowed)).all():
            yield from _each(column, values, ~known, f"{name} is {{}}, which is none of the values allowed")


def _each(column: Column, values: Any, bad: NDArray[np.bool_], why: str) -> Broken:
    places = np.flatnonzero(bad.reshape(len(values), -1).any(axis=1)) if len(values) else np.empty(0, np.int64)
    for place in places.tolist():
        row = place
        if isinstance(column, Ragged):
            row = int(np.searchsorted(column.row_splits, place, side="right")) - 1
        value = values[place]
        if isinstance(value, np.ndarray):
            value = value[bad[place]].reshape(-1)[0]
        yield row, why.format(repr(value.decode(errors="replace")) if isinstance(value, bytes) else value)


def _undecodable(values: BytesColumn) -> Iterator[int]:
    """Texts that are not UTF-8. All at once where all are, which is nearly always."""
    if not len(values):
        return
    first, last = int(values.offsets[0]), int(values.offsets[-1])
    data = values.data[first:last]
    starts = values.offsets[:-1][values.lengths > 0] - first
    try:
        data.tobytes().decode()
        if not ((data[starts] & 0xC0) == 0x80).any():
            return
    except UnicodeDecodeError:
        pass
    for row in range(len(values)):
        try:
            values[row].decode()
        except UnicodeDecodeError:
            yield row
