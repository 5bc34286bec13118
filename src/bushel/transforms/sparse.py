"""Vectors that are mostly zeros, stored as what they are not zero at."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.columns import Column, SparseColumn, SparseRow
from bushel.errors import SchemaMismatch
from bushel.records import Sample
from bushel.transforms.elementwise import numbers_column
from bushel.transforms.protocol import Draw
from bushel.transforms.values import array_of

__all__ = ["sparse"]


class Sparse(msgspec.Struct, frozen=True, tag="sparse"):
    """A vector as the places and values that are not 0; NaN is not 0. All samples must have vectors of one size."""

    feature: str

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Keep what is not 0."""
        if self.feature not in sample:
            return sample
        values = array_of(sample, self.feature)
        if values.ndim != 1:
            raise SchemaMismatch(f"expected a vector, got an array of shape {values.shape}", at=self.feature)
        places = np.flatnonzero(values)
        return {**sample, self.feature: SparseRow(places, _stored(values[places]), len(values))}

    def apply_columns(self, columns: dict[str, Column]) -> dict[str, Column]:
        """Keep what is not 0 of many samples."""
        column = numbers_column(columns, self.feature)
        if not isinstance(column, np.ndarray) or column.ndim != 2:
            raise SchemaMismatch("expected vectors of one size", at=self.feature)
        rows, places = np.nonzero(column)
        splits = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(column)))]).astype(np.int64)
        made: Any = SparseColumn(places.astype(np.int64), _stored(column[rows, places]), splits, column.shape[1])
        return {**columns, self.feature: made}


def _stored(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(np.float32 if values.dtype.kind == "f" else np.int64)


sparse = Sparse
