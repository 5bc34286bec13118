"""Columns to samples and back: what transforms see, and what becomes of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.columns import BytesColumn, Column, Ragged, SparseColumn, SparseRow, as_ragged
from bushel.data.schema import Feature, Schema
from bushel.errors import SchemaMismatch
from bushel.records.scan import Sample

__all__ = ["Stack", "aligned", "aligned_empty", "sample_at"]

ALIGNMENT = 64
_NO_POOL = _native.Pool(0)
_LARGE = 4096  # bytes of an array that goes straight to its place in the batch


def sample_at(columns: dict[str, Column], schema: Schema, row: int) -> Sample:
    """One row as `bushel.scan` gives it; a feature that the row lacks is not in it."""
    sample: Sample = {}
    for name, column in columns.items():
        if isinstance(column, Ragged) and column.present is not None and not column.present[row]:
            continue
        sample[name] = _value_at(column, schema.features.get(name), row)
    return sample


def _value_at(column: Any, feature: Feature | None, row: int) -> Any:
    value = column[row]
    if isinstance(value, SparseRow):
        return value
    is_text = feature is not None and feature.dtype == "str"
    is_one = feature is not None and feature.is_one_value and not feature.sequence
    if isinstance(value, bytes):
        return value.decode() if is_text else value
    if isinstance(value, np.ndarray):
        is_scalar = is_one and feature is not None and feature.encoding == "list"
        return value.item() if value.ndim == 0 or (is_scalar and value.size == 1) else value
    if isinstance(value, BytesColumn):
        values: list[Any] = [text.decode() for text in value] if is_text else value.to_list()
        return values[0] if is_one and len(values) == 1 else values
    return value.to_list() if isinstance(value, Ragged) else value.item()


class Stack:
    """Samples as columns: dense where all have one shape, ragged where the first axis varies.

    A large array goes straight to its place in the batch, while it is still in the cache, and need not be kept.
    """

    def __init__(self, rows: int, pool: _native.Pool) -> None:
        self._rows = rows
        self._pool = pool
        self._count = 0
        self._values: dict[str, list[Any]] = {}
        self._placed: dict[str, NDArray[Any]] = {}
        self._given: dict[str, NDArray[Any]] = {}  # places that the sample at hand may have been written to

    def add(self, sample: Sample) -> None:
        """Take one more sample."""
        for name, value in sample.items():
            values = self._values.setdefault(name, [None] * self._count)
            values.append(self._place(name, value) if isinstance(value, np.ndarray) else value)
        self._count += 1
        for values in self._values.values():
            if len(values) < self._count:
                values.append(None)

    def room(self, feature: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any] | None:
        """The place of the next sample's value in the batch; None if it is small, or others have another shape."""
        if math.prod(shape) * dtype.itemsize < _LARGE:
            return None
        if feature not in self._placed:
            self._placed[feature] = aligned_empty((self._rows, *shape), dtype, self._pool)
        out = self._placed[feature]
        if out.shape[1:] != shape or out.dtype != dtype:
            return None
        self._given[feature] = place = cast("NDArray[Any]", out[self._count])
        return place

    def _place(self, name: str, value: NDArray[Any]) -> NDArray[Any]:
        if value is self._given.get(name):
            return value
        place = self.room(name, value.shape, value.dtype)
        if place is None:
            return value
        place[...] = value
        return place

    def columns(self) -> dict[str, Column]:
        """The columns of the samples so far."""
        return {name: self._column(name, values) for name, values in self._values.items()}

    def _column(self, name: str, values: list[Any]) -> Column:
        out = self._placed.get(name)
        if out is not None and all(isinstance(value, np.ndarray) and value.base is not None for value in values):
            first = out.ctypes.data
            step = out.strides[0]
            if all(value.ctypes.data == first + row * step for row, value in enumerate(values)):
                return out[: len(values)]
        stacked: Column = _stack_values(name, values)
        return stacked


def _stack_values(name: str, values: Sequence[Any]) -> Any:
    if any(value is None for value in values):
        return _stack_some(name, values)
    first = values[0]
    if isinstance(first, SparseRow):
        return SparseColumn.of(values)
    if isinstance(first, bytes | str):
        return BytesColumn.of(values)
    if isinstance(first, list) and any(isinstance(item, bytes | str) for row in values for item in row):
        return Ragged.of(values)
    arrays = [np.asarray(value) for value in values]
    shape, dtype = arrays[0].shape, _dtype_of(arrays[0])
    if all(array.shape == shape for array in arrays):
        out = aligned_empty((len(arrays), *shape), dtype)
        for row, array in enumerate(arrays):
            out[row] = array
        return out
    if any(array.shape[1:] != shape[1:] or not array.shape for array in arrays):
        shapes = sorted({array.shape for array in arrays})[:3]
        raise SchemaMismatch(f"samples of one batch must have one shape, got {shapes}", at=name, help=[_SAME_SHAPE])
    splits = np.zeros(len(arrays) + 1, np.int64)
    np.cumsum([len(array) for array in arrays], out=splits[1:])
    return Ragged(np.concatenate(arrays).astype(dtype, copy=False), splits)


_SAME_SHAPE = "Resize or crop images to one size, pad series to one length."


def _stack_some(name: str, values: Sequence[Any]) -> Ragged:
    """A column where some rows lack the feature."""
    present = np.array([value is not None for value in values])
    filled = as_ragged(_stack_values(name, [value for value in values if value is not None]))
    splits = np.zeros(len(values) + 1, np.int64)
    splits[1:][present] = filled.lengths
    return Ragged(filled.values, np.cumsum(splits), present)


def _dtype_of(array: NDArray[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32) if array.ndim == 0 and array.dtype == np.float64 else array.dtype


def aligned_empty(shape: tuple[int, ...], dtype: Any, pool: _native.Pool = _NO_POOL) -> NDArray[Any]:
    """An array that begins at a multiple of 64 bytes, as frameworks need it to take it without a copy."""
    dtype = np.dtype(dtype)
    memory = cast("NDArray[np.uint8]", pool.empty(math.prod(shape) * dtype.itemsize))
    return cast("NDArray[Any]", memory.view(dtype).reshape(shape))


def aligned(array: NDArray[Any]) -> NDArray[Any]:
    """The array itself if it is aligned and in C order, else a copy that is."""
    if array.ctypes.data % ALIGNMENT == 0 and array.flags.c_contiguous:
        return array
    out = aligned_empty(array.shape, array.dtype)
    out[...] = array
    return out
