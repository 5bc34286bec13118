"""Values in memory (arrays, lists, series of data frames, arrays by split) as columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, Ragged, SparseColumn, byte_size, concatenate, with_missing
from bushel.data.samples import as_column
from bushel.data.schema import RAW_DTYPES, Feature
from bushel.data.splits import split_of_name
from bushel.errors import SchemaMismatch
from bushel.sources.tables import arrow

__all__ = [
    "are_splits",
    "from_pairs",
    "is_sparse",
    "join_splits",
    "nullable_column",
    "number_keys",
    "rows_that_fit",
    "typed",
]


def nullable_column(values: Any, *, name: str) -> Any:
    """Any values, one per row, as a column; None is missing, and so is NaN among objects."""
    if isinstance(values, BytesColumn | Ragged | SparseColumn):
        return values
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        if values.ndim == 0:
            raise SchemaMismatch("a column must have one value per row, got a single value", at=name)
        return values
    if isinstance(values, np.ndarray) and values.dtype.kind in "US":
        return as_column(values, name=name)
    if isinstance(values, np.ndarray) and values.dtype.kind not in "OMm":
        raise SchemaMismatch(f"values of dtype {values.dtype} cannot be stored", at=name, help=[_CONVERT])
    if is_sparse(values):
        return _from_sparse(values, name)
    if not hasattr(values, "__len__"):
        raise SchemaMismatch(f"a column must have one value per row, got {type(values).__name__}", at=name)
    if not isinstance(values, np.ndarray) and (column := _from_numbers(values)) is not None:
        return column
    return _through_arrow(values, name)


_CONVERT = "Convert it to numbers, bytes or str."


def is_sparse(values: Any) -> bool:
    """Whether it is one of SciPy's sparse matrices or arrays."""
    return hasattr(values, "tocsr") and hasattr(values, "nnz")


def _from_sparse(values: Any, name: str) -> SparseColumn:
    """The non-zero values of a matrix by row; duplicates are summed, as in SciPy."""
    if len(values.shape) != 2:
        raise SchemaMismatch("a sparse array must have rows of one size", at=name)
    matrix = values.tocsr()
    if not matrix.has_canonical_format or not matrix.data.all():
        matrix = matrix.copy()
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    places, splits = (np.asarray(part, np.int64) for part in (matrix.indices, matrix.indptr))
    return SparseColumn(places, matrix.data, splits, int(matrix.shape[1]))


def _from_numbers(values: Any) -> NDArray[Any] | None:
    """Lists of numbers, or of arrays of one shape, as NumPy converts them."""
    if hasattr(values, "dtype") or not isinstance(values, Sequence) or not len(values):
        return None
    if not isinstance(values[0], int | float | np.number | np.ndarray | list | tuple):
        return None
    try:
        array = np.asarray(values)
    except ValueError:
        return None
    return array if array.dtype.kind in "biuf" and array.ndim else None


def _through_arrow(values: Any, name: str) -> Column:
    try:
        import pyarrow as pa
    except ImportError:
        return _without_arrow(list(values), name)
    bad: arrow.BadRows = {}
    try:
        # Inside a list, Arrow takes lists of lists, but no arrays of several dimensions.
        if isinstance(values, Sequence) and any(isinstance(value, np.ndarray) and value.ndim > 1 for value in values):
            return as_column(values, name=name)
        array = pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        what = str(error).splitlines()[0]
        raise SchemaMismatch(f"its values are not of one type: {what}", at=name, help=[_CONVERT]) from None
    arrow.feature_of(array.type, name=name, required=False)
    column = arrow.to_column(array, bad)
    for row, reason in bad.items():
        raise SchemaMismatch(reason, at=f"{name}[{row}]")
    return column


def _without_arrow(values: list[Any], name: str) -> Column:
    """The same for texts, bytes, numbers and lists of them, slower."""
    present = np.array([value is not None and not (isinstance(value, float) and isnan(value)) for value in values])
    if present.all():
        return as_column(values, name=name)
    there = [value for value, is_there in zip(values, present, strict=True) if is_there]
    if not there:
        raise SchemaMismatch("all its values are missing", at=name)
    return with_missing(as_column(there, name=name), present)


def typed(features: Mapping[str, Feature], types: Mapping[str, str]) -> dict[str, Feature]:
    """Features with the requested types; requesting a type permits a cast."""
    out = dict(features)
    for name, dtype in types.items():
        if dtype not in (*RAW_DTYPES, "str", "bytes"):
            raise ValueError(f"types[{name!r}] must be one of str, bytes, {', '.join(RAW_DTYPES)}; got {dtype!r}")
        old = features[name]
        if old.encoding == "sparse":
            if dtype != old.dtype:
                raise SchemaMismatch(f"sparse {old.dtype} cannot be taken as {dtype}", at=name, help=[_DENSE])
            continue
        was_text, is_text = old.dtype in ("str", "bytes"), dtype in ("str", "bytes")
        cast = not is_text and not was_text
        out[name] = Feature(dtype=dtype, shape=old.shape, required=old.required, cast=cast)
    return out


_DENSE = "Convert the matrix (x.astype(...)), or make it dense: x.toarray()"


def number_keys(first: int, count: int, prefix: str = "") -> BytesColumn:
    """Row numbers as keys: their decimal digits, after a prefix."""
    before = np.frombuffer(prefix.encode(), np.uint8)
    data, lengths = [], []
    begin, end = first, first + count
    while begin < end:
        width = len(str(begin))
        stop = min(end, 10**width)  # numbers of as many digits
        numbers = np.arange(begin, stop, dtype=np.int64)
        rows = np.empty((len(numbers), len(before) + width), np.uint8)
        rows[:, : len(before)] = before
        for place in range(width):
            tens = numbers // 10  # faster than a remainder
            rows[:, -1 - place] = numbers - (10 * tens - ord("0"))
            numbers = tens
        data.append(rows.reshape(-1))
        lengths.append(np.full(len(rows), rows.shape[1], np.int64))
        begin = stop
    offsets = np.concatenate([np.zeros(1, np.int64), *lengths]).cumsum()
    return BytesColumn(offsets, np.concatenate([np.empty(0, np.uint8), *data]))


def rows_that_fit(columns: Iterable[Column], rows: int, *, max_bytes: int, most: int = 65536) -> int:
    """How many rows of columns make a block of about `max_bytes`."""
    size = sum(byte_size(column) for column in columns)
    return int(max(1, min(most, rows * max_bytes // max(size, 1))))


_LABELS = ("y", "label", "labels", "target", "targets")


def from_pairs(data: Any) -> dict[str, Any] | None:
    """`((x, y), (x, y))`, or three such pairs, by name: what the `load_data` functions of Keras return."""
    if not isinstance(data, tuple) or len(data) not in (2, 3) or not all(_is_pair(pair) for pair in data):
        return None
    names = ("train", "test") if len(data) == 2 else ("train", "val", "test")
    return {f"{part}_{name}": pair[at] for name, pair in zip(names, data, strict=True) for at, part in enumerate("xy")}


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and all(hasattr(part, "shape") for part in value)


def are_splits(names: Iterable[str]) -> bool:
    """Whether all names begin or end with a split, and there are several splits."""
    stated = [_told(name) for name in names]
    return all(stated) and len({one[1] for one in stated if one}) > 1


def join_splits(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Join columns named after splits into columns of all rows, and a column of splits."""
    found: dict[str, dict[str, Column]] = {}
    for name, column in columns.items():
        part, split = _told(name) or (name, "")
        found.setdefault(split, {})[part] = column
    parts = list(next(iter(found.values())))
    rows: dict[str, int] = {}
    for split, own in found.items():
        if set(own) != set(parts):
            raise SchemaMismatch(f"splits must have the same arrays, got {', '.join(columns)}", at=split)
        counts = {len(column) for column in own.values()}
        if len(counts) > 1:
            said = ", ".join(f"{name}_{split} {len(column)}" for name, column in own.items())
            raise SchemaMismatch(f"arrays of one split must have the same number of rows, got {said}", at=split)
        rows[split] = counts.pop()
    joined = {
        "label" if part in _LABELS else part: _scalars(concatenate([own[part] for own in found.values()]))
        for part in parts
    }
    numbers = np.repeat(np.arange(len(rows)), list(rows.values()))
    return joined | {"split": BytesColumn.of(list(rows)).take(numbers)}


def _told(name: str) -> tuple[str, str] | None:
    """The array and the split in a name: `x_train`, `train_x`, or `train/x` in a group of an HDF5 file."""
    group, _, inner = name.partition("/")
    if inner and (split := split_of_name(group)):
        return inner, split
    before, _, after = name.rpartition("_")
    if before and (split := split_of_name(after)):
        return before, split
    before, _, after = name.partition("_")
    split = split_of_name(before)
    return (after, split) if split and after else None


def _scalars(column: Column) -> Column:
    """One value per row if rows are lists of one value, like the labels of CIFAR."""
    if isinstance(column, np.ndarray) and column.ndim == 2 and column.shape[1] == 1:
        return np.ascontiguousarray(column[:, 0])
    return column
