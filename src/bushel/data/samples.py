"""Samples: dicts of values by feature name. From columns to samples and back, and the feature that a value makes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.columns import (
    Array,
    BytesColumn,
    Column,
    Ragged,
    SparseColumn,
    SparseRow,
    aligned_empty,
    as_ragged,
    count_of,
    splits_of,
    with_missing,
)
from bushel.data.schema import BYTES_KIND, RAW_DTYPES, Encoding, Feature
from bushel.errors import BushelError, MissingName, SchemaMismatch
from bushel.storage.file_kinds import kind_of_bytes

Sample: TypeAlias = dict[str, Any]

_LARGE = 4096  # bytes of an array that goes straight to its place in the batch
_INT64 = range(-(2**63), 2**63)
_CONVERT = "Convert it to numbers, bytes or str, or declare a raw dtype in the schema."
_USE_PRESENT = "Rows that lack a feature are marked by Ragged(..., present=...)."
_ONE_SIZE = "Resize or crop images to one size and one number of channels, pad series to one length."


DEEPEST = 64  # levels of lists and objects in a value


def is_too_deep(value: Any) -> bool:
    """Whether lists and objects are nested deeper than values of samples are; found without recursion."""
    level = [value]
    for _ in range(DEEPEST + 1):
        inner = (list(one.values()) if isinstance(one, dict) else one for one in level if isinstance(one, dict | list))
        level = [each for some in inner for each in some if isinstance(each, dict | list)]
        if not level:
            return False
    return True


def sample_at(columns: Mapping[str, Any], features: Mapping[str, Feature], row: int) -> Sample:
    """One row of columns as a sample; a feature that the row lacks is not in it."""
    sample: Sample = {}
    for name, column in columns.items():
        if isinstance(column, Ragged) and column.present is not None and not column.present[row]:
            continue
        sample[name] = _value_at(column, features.get(name), row)
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


def to_columns(samples: Sequence[Mapping[str, Any]], features: Mapping[str, Feature]) -> dict[str, Any]:
    """Samples as columns, one per feature."""
    return {
        name: column_of([sample.get(name) for sample in samples], feature, name=name)
        for name, feature in features.items()
    }


def column_of(values: Sequence[Any], feature: Feature, *, name: str) -> Any:
    """Values of one feature as a column: one per row, None where a row lacks it. Numbers keep their types."""
    if feature.encoding == "sparse":
        return _sparse_column(values, feature, name)
    present = np.fromiter((value is not None for value in values), bool, len(values))
    some = values if present.all() else [value for value in values if value is not None]
    column = _of_feature(_from_list(list(some), name), feature) if some else empty_column(feature)
    return column if len(some) == len(values) else with_missing(column, present)


def _of_feature(column: Column, feature: Feature) -> Column:
    """A column that is ragged if its feature is, even if these rows happen to have one length."""
    if feature.sequence:
        steps = as_ragged(column)
        return Ragged(_of_feature(steps.values, _step_of(feature)), steps.row_splits)
    if not feature.is_ragged or feature.shape[0] is not None:
        return column
    ragged = as_ragged(column)
    if isinstance(ragged.values, np.ndarray) and not ragged.values.size:
        return Ragged(np.empty((0, *_sizes(feature.shape[1:])), ragged.values.dtype), ragged.row_splits)
    return ragged


def empty_column(feature: Feature) -> Any:
    """A column of the feature that has no rows."""
    no_splits = np.zeros(1, np.int64)
    if feature.encoding == "sparse":
        return SparseColumn(np.empty(0, np.int64), np.empty(0, feature.dtype), no_splits, feature.shape[0] or 0)
    if feature.sequence:
        return Ragged(empty_column(_step_of(feature)), no_splits)
    if feature.kind == BYTES_KIND and feature.encoding != "raw":
        texts = BytesColumn.of([])
        return texts if feature.is_one_value else Ragged(texts, no_splits)
    if feature.is_ragged:
        return Ragged(np.empty((0, *_sizes(feature.shape[1:])), feature.dtype), no_splits)
    return np.empty((0, *_sizes(feature.shape)), feature.dtype)


def _step_of(feature: Feature) -> Feature:
    return Feature(dtype=feature.dtype, shape=feature.shape, encoding=feature.encoding, cast=feature.cast)


def _sizes(shape: Sequence[int | None]) -> tuple[int, ...]:
    return tuple(size or 0 for size in shape)


def _sparse_column(values: Sequence[Any], feature: Feature, name: str) -> SparseColumn:
    empty = SparseRow(np.empty(0, np.int64), np.empty(0, feature.dtype), feature.shape[0] or 0)
    rows = [empty if value is None else _check_sparse(value, feature, name) for value in values]
    return SparseColumn.of([empty, *rows])[1:]


def as_column(values: Any, *, name: str) -> Column:
    """What a user may pass as a column: arrays, lists, lists of lists, series of data frames; one value per row."""
    if isinstance(values, Ragged | BytesColumn):
        return values
    if isinstance(values, np.ndarray) or hasattr(values, "to_numpy"):
        return _from_array(values if isinstance(values, np.ndarray) else values.to_numpy(), name)
    if not isinstance(values, Iterable):
        raise SchemaMismatch("a column must have one value per row, got a single value", at=name)
    return _from_list(list(values), name, is_outermost=True)


def _from_list(values: list[Any], name: str, *, is_outermost: bool = False) -> Column:
    """One value per row: numbers, text, arrays, or lists of them to any depth. Never via an array of text.

    NumPy would turn numbers among text into text, and strip zeros from the end of bytes.
    """

    def at(row: int) -> str:
        return f"{name}[{row}]" if is_outermost else name

    kinds = set(map(type, values))
    if type(None) in kinds:
        raise SchemaMismatch("None cannot be stored", at=at(values.index(None)), help=[_USE_PRESENT])
    if SparseRow in kinds:
        return SparseColumn.of(values)  # type: ignore[return-value]
    if kinds & {bytearray, memoryview} or any(issubclass(kind, np.ndarray) for kind in kinds):
        values = [_plain(value) for value in values]
        kinds = set(map(type, values))
    if any(issubclass(kind, bytes | str) for kind in kinds):
        return _bytes_column(values, name)
    if kinds and all(issubclass(kind, list | tuple) for kind in kinds):
        return _from_lists(values, name)
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError):
        return _from_rows(values, name)
    if array.dtype.kind in "fO":
        for row, value in enumerate(values):
            if isinstance(value, int) and value not in _INT64:
                raise SchemaMismatch(f"{value} does not fit int64", at=at(row))
    if array.dtype.kind == "O":
        raise SchemaMismatch(f"a value of type {type(values[0]).__name__} cannot be stored", at=at(0))
    return _from_array(array, name)


def _plain(value: Any) -> Any:
    """Buffers as bytes, and arrays of text as lists: only numbers stay arrays."""
    if isinstance(value, np.ndarray):
        return value.tolist() if value.dtype.kind in "SUO" else value
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def _from_lists(rows: list[Any], name: str) -> Column:
    lengths = [len(row) for row in rows]
    flat = [value for row in rows for value in row]
    if not flat:
        return np.empty((len(rows), 0), np.float32)
    inner = _from_list(flat, name)
    if isinstance(inner, np.ndarray) and len(set(lengths)) == 1:
        return inner.reshape(len(rows), lengths[0], *inner.shape[1:])
    return Ragged(inner, splits_of(lengths))


def _from_rows(rows: list[Any], name: str) -> Ragged:
    """Arrays, or lists and arrays, that differ in their first size."""
    if not all(isinstance(row, list | tuple | np.ndarray) for row in rows):
        raise SchemaMismatch("single values and lists are mixed in one column", at=name)
    columns = [row if isinstance(row, np.ndarray) else _from_list(list(row), name) for row in rows]
    filled = [column for column in columns if len(column)]
    if not all(isinstance(column, np.ndarray) for column in filled):
        raise SchemaMismatch("rows may differ in their first size only", at=name)
    _check_sides({column.shape for column in filled}, name)  # type: ignore[union-attr]
    return Ragged(np.concatenate(filled), splits_of([len(column) for column in columns]))  # type: ignore[arg-type]


def _check_sides(shapes: set[Any], name: str) -> None:
    if len({shape[1:] for shape in shapes}) > 1:
        one, other = sorted(shapes, key=lambda shape: shape[1:])[:: len(shapes) - 1]
        what = f"rows may differ in their first size only, got {list(one)} and {list(other)}"
        raise SchemaMismatch(what, at=name, help=[_ONE_SIZE])


def _from_array(array: Array, name: str) -> Column:
    if array.ndim == 0:
        raise SchemaMismatch("a column must have one value per row, got a single value", at=name)
    if array.dtype.kind not in "SUO":
        return array
    if array.ndim == 1 and all(isinstance(value, bytes | str) for value in array.tolist()):
        return _bytes_column(array.tolist(), name)
    if array.dtype.kind == "O":
        return _from_list(array.tolist(), name, is_outermost=True)
    flat = _bytes_column(array.reshape(-1).tolist(), name)
    return Ragged(flat, np.arange(len(array) + 1) * count_of(array.shape[1:]))


def _bytes_column(values: Sequence[Any], name: str) -> BytesColumn:
    for row, value in enumerate(values):
        if not isinstance(value, bytes | str):
            raise SchemaMismatch(f"expected text, got {type(value).__name__}", at=f"{name}[{row}]")
    try:
        return BytesColumn.of(values)
    except UnicodeEncodeError as error:
        row = next(i for i, value in enumerate(values) if value == error.object)
        raise SchemaMismatch("the text holds characters that UTF-8 cannot encode", at=f"{name}[{row}]") from None


class Stack:
    """Samples as columns: dense if all have one shape, ragged if the first axis varies.

    A large array is copied to its place in the batch at once, while it is in the cache, and need not be kept.
    """

    def __init__(self, rows: int, pool: _native.Pool | None = None) -> None:
        self._rows = rows
        self._pool = pool or _native.Pool(0)
        self._count = 0
        self._values: dict[str, list[Any]] = {}
        self._placed: dict[str, NDArray[Any]] = {}

    def add(self, sample: Sample) -> None:
        """Take one more sample."""
        for name, value in sample.items():
            values = self._values.setdefault(name, [None] * self._count)
            values.append(self._place(name, value) if isinstance(value, np.ndarray) else value)
        self._count += 1
        for values in self._values.values():
            if len(values) < self._count:
                values.append(None)

    def _room(self, feature: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any] | None:
        """The place for the next value in the batch; None if it is small or its shape differs from the others."""
        if math.prod(shape) * dtype.itemsize < _LARGE:
            return None
        if feature not in self._placed:
            self._placed[feature] = aligned_empty((self._rows, *shape), dtype, self._pool)
        out = self._placed[feature]
        if out.shape[1:] != shape or out.dtype != dtype:
            return None
        return cast("NDArray[Any]", out[self._count])

    def _place(self, name: str, value: NDArray[Any]) -> NDArray[Any]:
        place = self._room(name, value.shape, value.dtype)
        if place is None:
            return value
        place[...] = value
        return place

    def columns(self) -> dict[str, Any]:
        """The columns of the samples so far."""
        return {name: self._column(name, values) for name, values in self._values.items()}

    def _column(self, name: str, values: list[Any]) -> Column:
        out = self._placed.get(name)
        if out is not None and all(isinstance(value, np.ndarray) and value.base is not None for value in values):
            first = out.ctypes.data
            step = out.strides[0]
            if all(value.ctypes.data == first + row * step for row, value in enumerate(values)):
                return out[: len(values)]
        there = [value is not None for value in values]
        column = _from_list([value for value in values if value is not None], name)
        if isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype == np.float64:
            column = column.astype(np.float32)  # Python's floats
        return column if all(there) else with_missing(column, np.array(there))


def feature_of(value: Any, *, name: str, is_raw: bool = False) -> Feature:
    """The feature that one value makes, without a schema. Raises `SchemaMismatch` for what cannot be stored.

    Numbers are int64 or float32. With `is_raw`, arrays of other types keep them: pixels stay bytes. The type of an
    empty list is a guess.
    """
    if isinstance(value, SparseRow):
        dtype = "float32" if value.values.dtype.kind == "f" else "int64"
        return Feature(dtype=dtype, shape=(value.size,), encoding="sparse")
    array = value if isinstance(value, np.ndarray) else _as_array(value, name)
    if is_raw and isinstance(value, np.ndarray) and value.ndim and value.dtype.name in _KEPT:
        return Feature(dtype=value.dtype.name, shape=value.shape, encoding="raw")
    if array.dtype.kind not in "SUO":
        return Feature(dtype=_dtype_of(array.dtype, name), shape=array.shape)
    for inner in array.flat:
        if not isinstance(inner, str | bytes):
            raise SchemaMismatch(f"a value of type {type(inner).__name__} cannot be stored", at=name)
    first = next(iter(array.flat), b"") if array.size else b""
    return Feature(dtype="str" if isinstance(first, str) else "bytes", shape=array.shape)


_KEPT = set(RAW_DTYPES) - {"int64", "float32", "float64"}


def _dtype_of(dtype: np.dtype[Any], name: str) -> str:
    if dtype.kind not in "biuf":
        raise SchemaMismatch(f"values of dtype {dtype} cannot be stored", at=name, help=[_CONVERT])
    return "float32" if dtype.kind == "f" else "int64"


def _as_array(value: Any, name: str) -> Array:
    if value is None:
        raise SchemaMismatch("None cannot be stored", at=name, help=["Leave the feature out of the sample instead."])
    if isinstance(value, bytes | str):
        return np.array(value, object)
    if isinstance(value, list | tuple) and any(isinstance(item, bytes | str) for item in value):
        if not all(isinstance(item, bytes | str) for item in value):
            raise SchemaMismatch("text and numbers are mixed in one list", at=name)
        return np.array(value, object)
    try:
        return np.asarray(value)
    except (ValueError, OverflowError) as error:
        raise SchemaMismatch(f"a value of type {type(value).__name__} is not an array: {error}", at=name) from None


def feature_of_column(column: Any, *, name: str, is_text: bool | None = None) -> Feature:
    """The feature that a column makes, without a schema.

    If `is_text` is None, bytes that decode are text, and bytes that begin like images are encoded images.
    """
    if isinstance(column, Ragged):
        inner = feature_of_column(column.values, name=name, is_text=is_text)
        if None in inner.shape:
            if inner.dtype not in ("str", "bytes"):
                raise SchemaMismatch("rows may differ in their first size only", at=name)
            inner = Feature(dtype=inner.dtype)  # text is flattened
        is_single = column.present is not None and bool((column.lengths[column.present] == 1).all())
        shape = inner.shape if is_single else (None, *inner.shape)
        return Feature(dtype=inner.dtype, shape=shape, encoding=inner.encoding, required=column.present is None)
    if isinstance(column, BytesColumn):
        if is_text or (is_text is None and _is_text(column)):
            return Feature(dtype="str")
        return Feature(dtype="bytes", encoding="image" if is_text is None and are_images(_heads(column)) else "list")
    is_sparse = isinstance(column, SparseColumn)
    encoding: Encoding = "sparse" if is_sparse else "list"
    dtype = _dtype_of(column.values.dtype if is_sparse else column.dtype, name)
    return Feature(dtype=dtype, shape=column.shape[1:], encoding=encoding)


_LOOKED_AT = 1000


def are_images(values: Iterable[bytes]) -> bool:
    """Whether all values are encoded images, by their first bytes; some must be."""
    is_some = False
    for value in values:
        kind = kind_of_bytes(value[:_MAGIC_BYTES])
        if kind is None or kind.source != "images":
            return False
        is_some = True
    return is_some


_MAGIC_BYTES = 16  # enough to recognise every image format


def _heads(column: BytesColumn) -> Iterator[bytes]:
    """The first bytes of some rows, evenly spread."""
    for row in range(0, len(column), max(1, len(column) // _LOOKED_AT)):
        begin, end = column.offsets[row : row + 2].tolist()
        yield column.data[begin : min(end, begin + _MAGIC_BYTES)].tobytes()


def _is_text(column: BytesColumn) -> bool:
    try:
        column.data.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in column.data[:4096].tobytes()


def check_sample(sample: Sample, features: Mapping[str, Feature]) -> Sample:
    """The sample with its numbers as arrays; raises `SchemaMismatch` if it does not match the features."""
    if not sample:
        raise SchemaMismatch("the sample is empty", at="sample")
    checked: Sample = {}
    for name, value in sample.items():
        if name not in features:
            raise MissingName("feature", name, features, where="sample")
        checked[name] = _check_value(value, features[name], name)
    for name, feature in features.items():
        if feature.encoding == "sparse" and feature.required and name not in sample:
            raise SchemaMismatch(f"{name} is required but the sample does not have it", at=name)
    return checked


def _check_value(value: Any, feature: Feature, name: str) -> Any:
    if isinstance(value, SparseRow) or feature.encoding == "sparse":
        return _check_sparse(value, feature, name)
    is_text = feature.dtype in ("bytes", "str")
    array = np.asarray(value, object if is_text else None)
    wanted = (None, *feature.shape) if feature.sequence else feature.shape
    if not fits(array.shape, wanted) or (not is_text and array.dtype.kind not in "biufc"):
        found = f"{array.dtype} of shape {array.shape}" if not is_text else f"shape {array.shape}"
        raise SchemaMismatch(f"expected {feature.describe()}, got {found}", at=name)
    if is_text and not all(isinstance(text, bytes | str) for text in array.reshape(-1).tolist()):
        raise SchemaMismatch(f"expected {feature.dtype}, got {type(value).__name__}", at=name)
    return value if is_text else array


def _check_sparse(value: Any, feature: Feature, name: str) -> SparseRow:
    if not isinstance(value, SparseRow) or feature.encoding != "sparse" or (value.size,) != feature.shape:
        found = f"sparse of size {value.size}" if isinstance(value, SparseRow) else type(value).__name__
        raise SchemaMismatch(f"expected {feature.describe()}, got {found}", at=name)
    return value


def fits(shape: Sequence[int | None], wanted: Sequence[int | None]) -> bool:
    """Whether a value of this shape fits a feature of the shape wanted."""
    return len(shape) == len(wanted) and all(w is None or w == s for s, w in zip(shape, wanted, strict=True))


def features_of(samples: Sequence[Sample], before: Mapping[str, Feature]) -> dict[str, Feature]:
    """The features of samples after transforms: as before if they still fit, otherwise inferred from the samples."""
    found: dict[str, Feature] = {}
    for name in sorted({name for sample in samples for name in sample}):
        values = [sample[name] for sample in samples if name in sample]
        old = before.get(name)
        if old is not None and all(_is_still(value, old) for value in values) and _is_of_kind(values, old):
            found[name] = old
            continue
        required = len(values) == len(samples) and (old is None or old.required)
        found[name] = _common_feature([feature_of(value, name=name, is_raw=True) for value in values], required, name)
    return found


def _common_feature(kinds: Sequence[Feature], required: bool, name: str) -> Feature:
    filled = [kind for kind in kinds if 0 not in kind.shape] or kinds  # an empty list has no type
    dtypes = {kind.dtype for kind in filled}
    if dtypes == {"int64", "float32"}:  # whole numbers among floats
        dtypes = {"float32"}
    if len(dtypes) > 1 or len({len(kind.shape) for kind in kinds}) > 1:
        said = ", ".join(sorted({kind.describe() for kind in filled})[:3])
        raise SchemaMismatch(f"the samples probed hold values of different types: {said}", at=name)
    sizes = list(zip(*(kind.shape for kind in kinds), strict=True))
    shape = tuple(size[0] if len(set(size)) == 1 else None for size in sizes)
    if None in shape[1:]:
        _check_sides({kind.shape for kind in kinds}, name)
    return Feature(dtype=dtypes.pop(), shape=shape, encoding=filled[0].encoding, required=required)


def _is_still(value: Any, feature: Feature) -> bool:
    try:
        _check_value(value, feature, "value")
    except (BushelError, ValueError):
        return False
    return True


def _is_of_kind(values: Sequence[Any], feature: Feature) -> bool:
    """Whether numbers are still integers, or still floats; a single float makes them all floats."""
    if feature.dtype in ("bytes", "str") or feature.encoding == "sparse":
        return True
    return any(np.asarray(value).dtype.kind == "f" for value in values) == feature.dtype.startswith("float")
