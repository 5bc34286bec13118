"""Columns of a batch as the arrays that a model takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.columns import BytesColumn, Ragged
from bushel.errors import SchemaMismatch
from bushel.reading import SparseColumn

__all__ = ["arrange", "as_array"]


def arrange(names: Sequence[str], columns: Mapping[str, Any]) -> Any:
    """The one feature, or a dict of all."""
    arrays = {name: as_array(name, columns[name]) for name in names}
    return arrays[names[0]] if len(names) == 1 else arrays


def as_array(name: str, column: Any) -> NDArray[Any]:
    """A column as an array: what a record lacks is NaN, or empty text; what is sparse has its zeros."""
    if isinstance(column, np.ndarray):
        return column
    if isinstance(column, BytesColumn):
        return column.to_numpy()
    if isinstance(column, SparseColumn):
        return column.to_dense()
    if isinstance(column, Ragged) and column.present is not None:
        return _filled(name, column, column.present)
    raise SchemaMismatch(
        f"a model takes arrays, and this is {type(column).__name__.lower()}", at=name, help=["Leave it out: --columns"]
    )


def _filled(name: str, column: Ragged, present: NDArray[np.bool_]) -> NDArray[Any]:
    if (column.lengths[present] != 1).any():
        raise SchemaMismatch("a list that some records lack cannot be fed to a model", at=name)
    values = column.values
    if isinstance(values, BytesColumn):
        texts = np.full(len(column), b"", object)
        texts[present] = values.to_numpy()
        return texts
    if not isinstance(values, np.ndarray):
        raise SchemaMismatch("lists of lists cannot be fed to a model", at=name)
    out = np.full((len(column), *values.shape[1:]), np.nan, np.float32)
    out[present] = values
    return out
