"""Columns of a batch as the arrays that a model takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel import contract
from bushel.errors import SchemaMismatch
from bushel.reading import Batch
from bushel.training.inputs import Input

__all__ = ["arrange", "arrays_of", "as_array"]


def arrange(arrays: Mapping[str, Any]) -> Any:
    """The one input, or a dict of all."""
    return next(iter(arrays.values())) if len(arrays) == 1 else dict(arrays)


def arrays_of(inputs: Sequence[Input], batch: Batch) -> dict[str, NDArray[Any]]:
    """Each input of a batch as an array; one that no row of it has is missing in all."""
    return {
        given.name: as_array(given.name, batch[given.name]) if given.name in batch else _nothing(given, len(batch.rows))
        for given in inputs
    }


def as_array(name: str, column: Any) -> NDArray[Any]:
    """A column as the contract says that the model is fed; rows of different lengths are refused."""
    array = contract.as_array(name, column)
    if not isinstance(array, np.ndarray):
        what = type(column).__name__.lower()
        raise SchemaMismatch(f"a model takes arrays, and this is {what}", at=name, help=["Leave it out: --columns"])
    return array


def _nothing(given: Input, rows: int) -> NDArray[Any]:
    if given.dtype == "string":
        return np.full(rows, b"", object)
    return np.full((rows, *(size or 1 for size in given.shape)), np.nan, np.float32)
