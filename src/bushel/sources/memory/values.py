"""What people have in memory (arrays, lists, series of data frames) as columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, Ragged, SparseColumn
from bushel.data.schema import RAW_DTYPES, Encoding, Feature
from bushel.errors import SchemaMismatch
from bushel.sources.tables import arrow

__all__ = ["as_column", "byte_size", "feature_of_column", "is_sparse", "number_keys", "rows_that_fit", "typed"]


def as_column(values: Any, *, name: str) -> Any:
    """Any values, one a row, as a column; None, and NaN among objects, are missing."""
    if isinstance(values, BytesColumn | Ragged | SparseColumn):
        return values
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        if values.ndim == 0:
            raise SchemaMismatch("a column must have one value a row, got a single value", at=name)
        return values
    if isinstance(values, np.ndarray) and values.dtype.kind in "US":
        return _from_text_array(values)
    if isinstance(values, np.ndarray) and values.dtype.kind not in "OMm":
        raise SchemaMismatch(f"values of dtype {values.dtype} cannot be stored", at=name, help=[_CONVERT])
    if is_sparse(values):
        return _from_sparse(values, name)
    if not hasattr(values, "__len__"):
        raise SchemaMismatch(f"a column must have one value a row, got {type(values).__name__}", at=name)
    if not isinstance(values, np.ndarray) and (column := _from_numbers(values)) is not None:
        return column
    return _through_arrow(values, name)


_CONVERT = "Convert it to numbers, bytes or str."


def is_sparse(values: Any) -> bool:
    """Whether it is a sparse matrix or array of SciPy's."""
    return hasattr(values, "tocsr") and hasattr(values, "nnz")


def _from_sparse(values: Any, name: str) -> SparseColumn:
    """The values of a matrix that are not 0, by row; one place twice is the sum, as in SciPy."""
    if len(values.shape) != 2:
        raise SchemaMismatch("a sparse array must have rows of one size", at=name)
    matrix = values.tocsr()
    if not matrix.has_canonical_format or not matrix.data.all():
        matrix = matrix.copy()
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    places, splits = (np.asarray(part, np.int64) for part in (matrix.indices, matrix.indptr))
    return SparseColumn(places, matrix.data, splits, int(matrix.shape[1]))


def _from_text_array(values: NDArray[Any]) -> Column:
    flat = BytesColumn.of(values.reshape(-1).tolist())
    if values.ndim == 1:
        return flat
    width = values.size // max(len(values), 1)
    return Ragged(flat, np.arange(len(values) + 1, dtype=np.int64) * width)


def _from_numbers(values: Any) -> NDArray[Any] | None:
    """Lists of numbers, and of arrays of one shape, are what NumPy makes of them."""
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
    import pyarrow as pa

    bad: arrow.BadRows = {}
    try:
        # Arrow takes no arrays of more dimensions inside a list, but lists of lists.
        if isinstance(values, Sequence) and any(isinstance(value, np.ndarray) and value.ndim > 1 for value in values):
            return _ragged_of_arrays(values, name)
        array = pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        what = str(error).splitlines()[0]
        raise SchemaMismatch(f"its values are not of one type: {what}", at=name, help=[_CONVERT]) from None
    arrow.feature_of(array.type, name=name, required=False)
    column = arrow.to_column(array, bad)
    for row, reason in bad.items():
        raise SchemaMismatch(reason, at=f"{name}[{row}]")
    return column


def _ragged_of_arrays(values: Sequence[Any], name: str) -> Ragged:
    arrays = [np.asarray(value) for value in values]
    if len({array.shape[1:] for array in arrays}) > 1:
        raise SchemaMismatch("rows differ in more than their first size", at=name)
    splits = np.zeros(len(arrays) + 1, np.int64)
    np.cumsum([len(array) for array in arrays], out=splits[1:])
    return Ragged(np.concatenate(arrays), splits)


def feature_of_column(column: Any, *, name: str, is_text: bool = False) -> Feature:
    """The feature that a column makes: numbers are int64 or float32, text and bytes are themselves."""
    if isinstance(column, Ragged):
        inner = feature_of_column(column.values, name=name, is_text=is_text)
        if column.present is None:
            return Feature(dtype=inner.dtype, shape=(None, *inner.shape))
        lengths = column.lengths[column.present]
        shape = inner.shape if (lengths == 1).all() else (None, *inner.shape)
        return Feature(dtype=inner.dtype, shape=shape, required=False)
    if isinstance(column, BytesColumn):
        return Feature(dtype="str" if is_text or _is_text(column) else "bytes")
    has_zeros = isinstance(column, SparseColumn)
    kind = column.values.dtype if has_zeros else column.dtype
    if kind.kind not in "biuf":
        raise SchemaMismatch(f"values of dtype {kind} cannot be stored", at=name, help=[_CONVERT])
    encoding: Encoding = "sparse" if has_zeros else "list"
    return Feature(dtype="float32" if kind.kind == "f" else "int64", shape=column.shape[1:], encoding=encoding)


def _is_text(column: BytesColumn) -> bool:
    try:
        column.data.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in column.data[:4096].tobytes()


def typed(features: Mapping[str, Feature], types: Mapping[str, str]) -> dict[str, Feature]:
    """Features with the types that were asked for; asking is leave to cast."""
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
    """Row numbers as keys: their decimal digits, behind a prefix."""
    import pyarrow as pa
    import pyarrow.compute as pc

    digits = arrow.from_integers(np.arange(first, first + count)).cast(pa.large_string())
    if prefix:
        before, between = (pa.scalar(text, pa.large_string()) for text in (prefix, ""))
        digits = pc.binary_join_element_wise(before, digits, between)
    return arrow.to_bytes(digits)


def byte_size(column: Any) -> int:
    """How many bytes a column takes."""
    if isinstance(column, BytesColumn):
        return int(column.data.nbytes + column.offsets.nbytes)
    if isinstance(column, Ragged):
        return byte_size(column.values) + int(column.row_splits.nbytes)
    if isinstance(column, SparseColumn):
        return int(column.places.nbytes + column.values.nbytes + column.row_splits.nbytes)
    return int(column.nbytes)


def rows_that_fit(columns: Iterable[Column], rows: int, *, max_bytes: int, most: int = 65536) -> int:
    """How many rows of columns make a block of about `max_bytes`."""
    size = sum(byte_size(column) for column in columns)
    return int(max(1, min(most, rows * max_bytes // max(size, 1))))
