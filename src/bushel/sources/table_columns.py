"""What tables do with columns: keys, rows that are missing, names for codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.columns import BytesColumn, Column, Ragged, as_ragged
from bushel.errors import SchemaMismatch
from bushel.sources import arrow

__all__ = ["as_text", "common_type", "named", "present_rows", "spread"]


def present_rows(column: Ragged) -> NDArray[np.bool_]:
    """Which rows have a value."""
    return np.ones(len(column), bool) if column.present is None else column.present


def as_text(column: Column) -> BytesColumn:
    """Keys as text: text as it is, integers as their digits."""
    import pyarrow as pa

    if isinstance(column, BytesColumn):
        return column
    if isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in "iu":
        return arrow.to_bytes(pa.array(column).cast(pa.string()))
    raise SchemaMismatch("a key must be one text or integer a row", at="key")


def spread(column: Column, there: NDArray[np.bool_]) -> Ragged:
    """A column of some rows as one of all, the others missing."""
    ragged = as_ragged(column)
    lengths = np.zeros(len(there), np.int64)
    lengths[there] = ragged.lengths
    present = there.copy()
    if ragged.present is not None:
        present[there] = ragged.present
    splits = np.zeros(len(there) + 1, np.int64)
    np.cumsum(lengths, out=splits[1:])
    return Ragged(ragged.values, splits, present)


def named(column: Column, names: Sequence[str]) -> Column:
    """Codes as the names they stand for; a code below 0 stands for none."""
    if isinstance(column, Ragged):
        return Ragged(named(column.values, names), column.row_splits, column.present)
    assert isinstance(column, np.ndarray)
    known = BytesColumn.of(names)
    if (column >= 0).all():
        return known.take(column)
    return spread(known.take(column[column >= 0]), column >= 0)


def common_type(one: Any, other: Any, at: str) -> Any:
    """The Arrow type that holds the values of two files."""
    import pyarrow as pa
    import pyarrow.types as t

    if one == other or t.is_null(other):
        return one
    if t.is_null(one):
        return other
    try:
        both = [pa.schema([("x", kind)]) for kind in (one, other)]
        return pa.unify_schemas(both, promote_options="permissive")[0].type
    except pa.ArrowException:
        help = ["types={...} says which type the column is to have."]
        what = f"the column is {other} in this file and {one} in those before"
        raise SchemaMismatch(what, at=at, help=help) from None
