"""Columns as they are stored: values checked against their feature and turned into what the core encodes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import Array, BytesColumn, Column, Ragged, as_ragged, count_of
from bushel.data.samples import empty_column
from bushel.data.schema import BYTES_KIND, FLOAT_KIND, INT_KIND, Feature
from bushel.errors import SchemaMismatch

__all__ = ["Narrowings", "Stored", "store"]

EXACT_IN_FLOAT = 1 << 24


class Stored(NamedTuple):
    """One column, with its arrays in the order that the core expects."""

    name: str
    sequence: bool
    kind: int
    numbers: Array | None
    ends: NDArray[np.int64] | None
    data: NDArray[np.uint8] | None
    splits: NDArray[np.int64] | None
    width: int
    present: NDArray[np.uint8] | None
    step_splits: NDArray[np.int64] | None

    @property
    def rows(self) -> int:
        """How many records the column is for."""
        if self.step_splits is not None:
            return len(self.step_splits) - 1
        return self.steps

    @property
    def steps(self) -> int:
        """How many Features the column has: one per record, or one per step."""
        if self.splits is not None:
            return len(self.splits) - 1
        values = len(self.numbers) if self.numbers is not None else len(self.ends) - 1  # type: ignore[arg-type]
        return values // self.width if self.width else 0

    def cut(self, begin: int, end: int) -> Stored:
        """The rows [begin, end), without a copy."""
        if self.step_splits is not None:
            return self._replace(step_splits=self.step_splits[begin : end + 1])
        present = None if self.present is None else self.present[begin:end]
        if self.splits is not None:
            return self._replace(splits=self.splits[begin : end + 1], present=present)
        first, last = begin * self.width, end * self.width
        if self.numbers is not None:
            return self._replace(numbers=self.numbers[first:last], present=present)
        assert self.ends is not None
        return self._replace(ends=self.ends[first : last + 1], present=present)


class Narrowings(dict[str, tuple[float, float]]):
    """By feature, the largest difference caused by storing it as float32, and the value where it occurred."""

    def add(self, name: str, largest: float, value: float) -> None:
        """Keep it if it is the largest so far."""
        if largest > self.get(name, (0.0, 0.0))[0]:
            self[name] = (largest, value)

    def merge(self, others: Narrowings) -> None:
        """Keep the largest of each feature."""
        for name, (largest, value) in others.items():
            self.add(name, largest, value)


def store(name: str, feature: Feature, column: Column, narrowings: Narrowings) -> Stored:
    """Check a column against its feature and lay it out for the core."""
    if feature.sequence:
        steps = as_ragged(column)
        inner = Feature(dtype=feature.dtype, shape=feature.shape, encoding=feature.encoding, cast=feature.cast)
        stored = store(name, inner, steps.values if len(steps.values) else empty_column(inner), narrowings)
        _check_splits(name, steps.row_splits, stored.steps)
        return stored._replace(sequence=True, step_splits=_contiguous(steps.row_splits, np.int64))
    if feature.encoding == "raw":
        return _store_bytes(name, feature, _raw_bytes(name, feature, column))
    if feature.kind == BYTES_KIND:
        return _store_bytes(name, feature, column)
    return _store_numbers(name, feature, column, narrowings)


def _check_splits(name: str, splits: NDArray[np.int64], values: int) -> None:
    """Check what the core relies on: splits must not point beyond the values."""
    if len(splits) == 0 or splits[0] < 0 or splits[-1] > values or (np.diff(splits) < 0).any():
        raise SchemaMismatch(f"the splits of rows do not fit the {values} values there are", at=name)


def _store_numbers(name: str, feature: Feature, column: Column, narrowings: Narrowings) -> Stored:
    splits = present = None
    values: Column = column
    if isinstance(column, Ragged):
        values = column.values
        splits = _contiguous(column.row_splits, np.int64)
        present = _present(name, feature, column)
    if not isinstance(values, np.ndarray) or isinstance(column, BytesColumn):
        raise SchemaMismatch(f"expected {feature.dtype}, got text", at=name)
    _check_shape(name, feature, column)
    inner = count_of(values.shape[1:])
    if splits is not None:
        _check_splits(name, splits, len(values))
        splits = splits * inner
    elif inner == 0:  # rows without values exist only in their splits
        splits = np.zeros(len(values) + 1, np.int64)
    numbers = as_stored_numbers(name, feature, values, narrowings)
    width = inner if splits is None else 0
    kind = feature.kind
    return Stored(name, False, kind, numbers.reshape(-1), None, None, splits, width, present, None)


def _check_shape(name: str, feature: Feature, column: Array | Ragged) -> None:
    if isinstance(column, Ragged):
        assert isinstance(column.values, np.ndarray)
        if not feature.is_ragged and feature.required:
            lengths = column.lengths
            size = feature.shape[0] if feature.shape else 1
            if (bad := np.flatnonzero(lengths != size)).size:
                raise SchemaMismatch(f"expected {size} values, got {lengths[bad[0]]}", at=f"{name}[{bad[0]}]")
        shape: tuple[int | None, ...] = (None, *column.values.shape[1:])
        wanted: tuple[int | None, ...] = (None, *feature.shape[1:])
    else:
        shape, wanted = column.shape[1:], feature.shape
    matches = len(shape) == len(wanted) and all(w is None or w == s for s, w in zip(shape, wanted, strict=True))
    if not matches and not (wanted == () and shape == (1,)):
        raise SchemaMismatch(f"expected rows of shape {feature.shape}, got {tuple(shape)}", at=name)


def _present(name: str, feature: Feature, column: Ragged) -> NDArray[np.uint8] | None:
    if column.present is None or column.present.all():
        return None
    if feature.required:
        raise SchemaMismatch(
            "the feature is required but the record does not have it", at=f"{name}[{int(np.argmin(column.present))}]"
        )
    return np.ascontiguousarray(column.present).view(np.uint8)


def as_stored_numbers(name: str, feature: Feature, values: Array, narrowings: Narrowings) -> Array:
    """Numbers as int64 or float32. Any loss that the feature does not allow is an error."""
    kind = values.dtype.kind
    if kind not in "biuf":
        raise SchemaMismatch(f"expected {feature.dtype}, got {values.dtype}", at=name)
    if feature.cast:
        return _contiguous(values, np.int64 if feature.kind == INT_KIND else np.float32)
    if feature.kind == INT_KIND:
        if kind == "f" and values.size:
            raise SchemaMismatch(f"expected int64, got {values.dtype}", at=name, help=[_ASK_CAST])
        if values.dtype == np.uint64 and values.size and values.max() > np.iinfo(np.int64).max:
            raise _loss(name, values, values > np.iinfo(np.int64).max, "does not fit int64")
        return _contiguous(values, np.int64)
    assert feature.kind == FLOAT_KIND
    if kind in "biu":
        wide = values.astype(np.float64)
        if (np.abs(wide) > EXACT_IN_FLOAT).any():
            raise _loss(name, values, np.abs(wide) > EXACT_IN_FLOAT, "is beyond 2^24, where float32 skips integers")
        return _contiguous(values, np.float32)
    return _narrow(name, values, narrowings)


_ASK_CAST = "To cast it on purpose: Feature(dtype=..., cast=True)."


def _narrow(name: str, values: Array, narrowings: Narrowings) -> Array:
    if values.dtype.itemsize <= 4:
        return _contiguous(values, np.float32)
    with np.errstate(over="ignore"):
        narrow = _contiguous(values, np.float32)
    if (lost := np.isinf(narrow) & ~np.isinf(values)).any():
        raise _loss(name, values, lost, "does not fit float32")
    with np.errstate(invalid="ignore"):
        difference = np.nan_to_num(np.abs(values - narrow), nan=0.0, posinf=0.0)
    if difference.size and (largest := float(difference.max())) > 0:
        narrowings.add(name, largest, float(values.reshape(-1)[int(difference.argmax())]))
    return narrow


def _loss(name: str, values: Array, lost: NDArray[np.bool_], why: str) -> SchemaMismatch:
    place = np.unravel_index(int(np.argmax(lost)), values.shape)
    at = name + "".join(f"[{i}]" for i in place)
    return SchemaMismatch(f"{values[place]} {why}", at=at, help=[_ASK_CAST])


def _store_bytes(name: str, feature: Feature, column: Column) -> Stored:
    splits = present = None
    values: Column = column
    if isinstance(column, Ragged):
        splits = _contiguous(column.row_splits, np.int64)
        values = column.values
        present = _present(name, feature, column)
    while isinstance(values, Ragged) and splits is not None:  # text of more than one dimension
        _check_splits(name, splits, len(values))
        splits, values = _contiguous(values.row_splits, np.int64)[splits], values.values
    if isinstance(values, np.ndarray) and not values.size:
        splits = np.zeros(len(values) + 1, np.int64) if splits is None else splits
        values = BytesColumn.of([])
    if not isinstance(values, BytesColumn):
        raise SchemaMismatch(f"expected {feature.dtype}, got numbers", at=name)
    if splits is None and not feature.is_ragged and _width(feature) != 1 and len(values):
        raise SchemaMismatch(f"expected {_width(feature)} values, got 1", at=f"{name}[0]")
    if splits is not None:
        _check_splits(name, splits, len(values))
        lengths = np.diff(splits)
        if not feature.is_ragged and feature.required and (bad := np.flatnonzero(lengths != _width(feature))).size:
            raise SchemaMismatch(f"expected {_width(feature)} values, got {lengths[bad[0]]}", at=f"{name}[{bad[0]}]")
    _check_splits(name, values.offsets, len(values.data))
    ends, data = _contiguous(values.offsets, np.int64), _contiguous(values.data, np.uint8)
    return Stored(name, False, BYTES_KIND, None, ends, data, splits, 1 if splits is None else 0, present, None)


def _width(feature: Feature) -> int:
    return 1 if feature.is_one_value else count_of(feature.shape)


def _raw_bytes(name: str, feature: Feature, column: Column) -> BytesColumn:
    dtype = np.dtype(feature.dtype).newbyteorder("<")
    values = column.values if isinstance(column, Ragged) else column
    if not isinstance(values, np.ndarray):
        raise SchemaMismatch(f"expected {feature.dtype}, got text", at=name)
    if not feature.cast:
        _check_lossless(name, values, dtype)
    if isinstance(column, Ragged) and not feature.is_ragged:
        raise SchemaMismatch(f"expected rows of shape {feature.shape}, got rows of different lengths", at=name)
    _check_shape(name, feature, column)  # type: ignore[arg-type]
    data = np.ascontiguousarray(values, dtype)
    row_size = dtype.itemsize * count_of(values.shape[1:])
    ends = column.row_splits * row_size if isinstance(column, Ragged) else np.arange(len(values) + 1) * row_size
    return BytesColumn(ends, data.reshape(-1).view(np.uint8))


def _check_lossless(name: str, values: Array, dtype: np.dtype[Any]) -> None:
    if np.can_cast(values.dtype, dtype, "safe"):
        return
    # Python's numbers arrive as int64 and float64: their values decide.
    if values.dtype.kind not in "biuf" or (values.dtype.kind == "f" and dtype.kind != "f"):
        raise SchemaMismatch(f"expected {dtype.name}, got {values.dtype}", at=name, help=[_ASK_CAST])
    with np.errstate(all="ignore"):
        changed = values.astype(dtype).astype(values.dtype) != values
    if values.dtype.kind == "f":
        changed &= ~np.isnan(values)
    if changed.any():
        raise _loss(name, values, changed, f"does not fit {dtype.name}")


def _contiguous(array: Array, dtype: Any) -> Array:
    return np.ascontiguousarray(array, dtype)
