"""Columns as Arrow tables, without Python code per value."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from bushel.data.columns import BytesColumn, Column, Ragged, SparseColumn, part_sparse
from bushel.data.schema import Feature

__all__ = ["to_arrow"]


def to_arrow(columns: Mapping[str, Any], features: Mapping[str, Feature]) -> Any:
    """A table with one row per record: lists for arrays, of fixed size if the shape is, and nulls for missing values.

    A sparse feature becomes two lists, `name/indices` and `name/values`, as in records.
    """
    import pyarrow as pa

    arrays: dict[str, Any] = {}
    for name, column in columns.items():
        if isinstance(column, SparseColumn):
            arrays |= {part: _array(inner, None) for part, inner in part_sparse(name, column).items()}
        else:
            arrays[name] = _array(column, features.get(name))
    return pa.table(arrays)


def _array(column: Column, feature: Feature | None) -> Any:
    is_text = feature is not None and feature.dtype == "str"
    if not isinstance(column, Ragged):
        return _dense(column, is_text)
    if feature is None or feature.sequence or feature.is_ragged or column.present is None:
        return _lists(column, is_text)
    return _optional(column, feature, is_text)


def _dense(column: Column, is_text: bool) -> Any:
    import pyarrow as pa

    if isinstance(column, BytesColumn):
        return _texts(column, is_text)
    if isinstance(column, Ragged):
        return _lists(column, is_text)
    array = np.ascontiguousarray(column)
    found = pa.array(array.reshape(-1))
    for size in reversed(array.shape[1:]):
        found = pa.FixedSizeListArray.from_arrays(found, size) if size else _empty_lists(found, array.shape)
    return found


def _empty_lists(values: Any, shape: tuple[int, ...]) -> Any:
    import pyarrow as pa

    return pa.LargeListArray.from_arrays(np.zeros(shape[0] + 1, np.int64), values)


def _texts(column: BytesColumn, is_text: bool) -> Any:
    import pyarrow as pa

    buffers = [
        None,
        pa.py_buffer(np.ascontiguousarray(column.offsets, np.int64)),
        pa.py_buffer(np.ascontiguousarray(column.data)),
    ]
    if is_text:
        found = pa.Array.from_buffers(pa.large_string(), len(column), buffers)
        try:
            found.validate(full=True)
            return found
        except pa.ArrowInvalid:  # not UTF-8: the bytes as they are
            pass
    return pa.Array.from_buffers(pa.large_binary(), len(column), buffers)


def _lists(column: Ragged, is_text: bool) -> Any:
    import pyarrow as pa

    mask = None if column.present is None else pa.array(~np.asarray(column.present))
    offsets = pa.array(np.asarray(column.row_splits, np.int64))
    return pa.LargeListArray.from_arrays(offsets, _dense(column.values, is_text), mask=mask)


def _optional(column: Ragged, feature: Feature, is_text: bool) -> Any:
    """Values of one shape, null where a record lacks them."""
    import pyarrow as pa

    assert column.present is not None
    present = np.asarray(column.present)
    sizes = [size or 0 for size in feature.shape]
    values = column.values
    if isinstance(values, np.ndarray) and values.size == int(present.sum()) * prod(sizes):
        values = values.reshape(-1, *sizes)
    elif len(values) != int(present.sum()):
        return _lists(column, is_text)
    places = np.cumsum(present) - 1
    return _dense(values, is_text).take(pa.array(places, mask=~present))
