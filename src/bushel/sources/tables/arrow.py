"""Arrow arrays to columns, without Python code per value."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, Ragged, with_missing
from bushel.data.schema import Feature
from bushel.errors import SchemaMismatch
from bushel.sources.tables.dialect import is_number, plain_number

__all__ = ["BadRows", "cast_array", "cast_text", "feature_of", "flatten", "is_date", "texts", "to_column", "to_numbers"]


BadRows = dict[int, str]  # row -> why it cannot be used

_INT64_MAX = np.iinfo(np.int64).max


def flatten(batch: Any) -> dict[str, Any]:
    """The columns of a table or batch by name; the fields of a struct become `outer/inner`."""
    import pyarrow as pa

    found: dict[str, Any] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        _flatten_into(found, name, column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
    return found


def _flatten_into(found: dict[str, Any], name: str, array: Any) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(array, pa.ExtensionArray):
        array = _nested_lists(array) if _is_tensor(array.type) else array.storage
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if (usual := _usual_type(array.type)) != array.type:
        array = array.cast(usual)
    if pa.types.is_struct(array.type):
        for field, inner in zip(array.type, array.flatten(), strict=True):
            _flatten_into(found, f"{name}/{field.name}", inner)
        return
    found[name] = array


def flatten_type(name: str, kind: Any) -> dict[str, Any]:
    """The same for types."""
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        kind = _nested_type(kind) if _is_tensor(kind) else kind.storage_type
    kind = _usual_type(kind)
    if pa.types.is_struct(kind):
        return {key: inner for field in kind for key, inner in flatten_type(f"{name}/{field.name}", field.type).items()}
    return {name: kind}


def _usual_type(kind: Any) -> Any:
    """The type that Arrow's functions take, for one that few of them do: views of texts, and runs of one value."""
    import pyarrow as pa

    if pa.types.is_run_end_encoded(kind):
        return _usual_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind


def _is_tensor(kind: Any) -> bool:
    """Whether values are arrays of one shape, stored in the usual order."""
    import pyarrow as pa

    is_one = isinstance(kind, pa.FixedShapeTensorType)
    return is_one and list(kind.permutation or range(len(kind.shape))) == list(range(len(kind.shape)))


def _nested_type(kind: Any) -> Any:
    import pyarrow as pa

    found = kind.value_type
    for size in reversed(kind.shape):
        found = pa.list_(found, size)
    return found


def _nested_lists(array: Any) -> Any:
    """Tensors as lists in lists, which have their shape; Arrow stores them flat."""
    import pyarrow as pa

    storage, shape = array.storage, array.type.shape
    each = storage.type.list_size
    found = storage.values.slice(storage.offset * each, len(storage) * each)
    for size in reversed(shape[1:]):
        found = pa.FixedSizeListArray.from_arrays(found, size)
    mask = storage.is_null() if storage.null_count else None
    return pa.FixedSizeListArray.from_arrays(found, shape[0], mask=mask)


def feature_of(kind: Any, *, name: str, required: bool) -> Feature:
    """The feature for an Arrow type."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    shape: list[int | None] = []
    while _is_list(kind):
        shape.append(kind.list_size if pa.types.is_fixed_size_list(kind) else None)
        kind = kind.value_type
    if None in shape[1:] or (dtype := _dtype_of(kind)) is None:
        raise SchemaMismatch(
            f"values of type {kind if not shape else f'list of {kind}'} cannot be stored",
            at=name,
            help=["Leave the column out, and name those to keep: --columns A,B"],
        )
    return Feature(dtype=dtype, shape=tuple(shape), required=required, meaning="date" if is_date(kind) else "")


def is_storable(kind: Any) -> bool:
    """Whether a feature can hold values of a type as they are."""
    try:
        feature_of(kind, name="", required=False)
    except SchemaMismatch:
        return False
    return True


def is_date(kind: Any) -> bool:
    """Whether values of a type are points in time."""
    import pyarrow.types as t

    return bool(t.is_timestamp(kind) or t.is_date(kind))


def to_json_text(array: Any) -> Any:
    """Values that no feature can hold, as JSON text."""
    import pyarrow as pa

    values = array.to_pylist(maps_as_pydicts="lossy")
    return pa.array([None if value is None else json.dumps(value, default=str) for value in values], pa.string())


def _is_list(kind: Any) -> bool:
    import pyarrow.types as t

    return bool(t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind))


def _dtype_of(kind: Any) -> str | None:
    import pyarrow.types as t

    if t.is_integer(kind) or t.is_boolean(kind) or is_date(kind):
        return "int64"
    if t.is_floating(kind) or t.is_decimal(kind):
        return "float32"
    if t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind) or t.is_temporal(kind) or t.is_null(kind):
        return "str"
    if t.is_binary(kind) or t.is_large_binary(kind) or t.is_fixed_size_binary(kind) or t.is_binary_view(kind):
        return "bytes"
    return None


def to_column(array: Any, bad: BadRows) -> Column:
    """An array as a column; rows that cannot be used are added to `bad`, and hold a placeholder."""
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not array.null_count:
        return _lists(array, bad, None) if _is_list(array.type) else _scalars(array, bad, None)
    present: NDArray[np.bool_] = to_numbers(array.is_valid())
    rows = np.flatnonzero(present)
    array = array.drop_null()
    values = _lists(array, bad, rows) if _is_list(array.type) else _scalars(array, bad, rows)
    return with_missing(values, present)


def _scalars(array: Any, bad: BadRows, rows: NDArray[np.int64] | None) -> Column:
    """An array without nulls; `rows` are the numbers of its rows, if they are not 0, 1, 2, ..."""
    import pyarrow as pa
    import pyarrow.types as t

    kind = array.type
    if t.is_decimal(kind):
        array = array.cast(pa.float64())
    elif is_date(kind):
        array = array.cast(pa.timestamp("us", kind.tz if t.is_timestamp(kind) else None), safe=False).cast(pa.int64())
    elif t.is_temporal(kind):
        array = array.cast(pa.string())
    elif t.is_null(kind):
        return BytesColumn.of([b""] * len(array))
    if _dtype_of(array.type) in ("str", "bytes"):
        return to_bytes(array)
    numbers = to_numbers(array)
    if numbers.dtype == np.uint64 and numbers.size and numbers.max() > _INT64_MAX:
        for row in np.flatnonzero(numbers > _INT64_MAX).tolist():
            bad[row if rows is None else int(rows[row])] = f"{numbers[row]} does not fit int64"
        numbers = np.minimum(numbers, np.uint64(_INT64_MAX))
    return numbers


def to_numbers(array: Any) -> NDArray[Any]:
    """Numbers or booleans without nulls, as a view of Arrow's memory. Arrow's own conversion would import pandas."""
    import pyarrow as pa

    if not len(array):
        return np.empty(0, array.type.to_pandas_dtype())
    if pa.types.is_boolean(array.type):
        return to_numbers(array.cast(pa.uint8())).view(bool)
    found: NDArray[Any] = np.frombuffer(array.buffers()[1], array.type.to_pandas_dtype())
    return found[array.offset : array.offset + len(array)]


def to_bytes(array: Any) -> BytesColumn:
    """Text or binary without nulls, as a view of Arrow's memory."""
    import pyarrow as pa

    is_text = pa.types.is_string(array.type) or pa.types.is_string_view(array.type)
    if is_text or pa.types.is_large_string(array.type):
        array = array.cast(pa.large_string())
    else:
        array = array.cast(pa.large_binary())
    _, offset_buffer, data_buffer = array.buffers()
    if not len(array):
        return BytesColumn.of([])
    offsets = np.frombuffer(offset_buffer, np.int64)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    first, last = int(offsets[0]), int(offsets[-1])
    return BytesColumn(offsets - first if first else offsets, data[first:last])


def texts(values: Sequence[str]) -> Any:
    """An array of text. Arrow would import pandas to make it of a list."""
    import pyarrow as pa

    encoded = [value.encode() for value in values]
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(encoded), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    )


def _lists(array: Any, bad: BadRows, rows: NDArray[np.int64] | None) -> Column:
    """Lists, none of which is null; a null inside a list makes its row bad."""
    import pyarrow as pa

    width = array.type.list_size if pa.types.is_fixed_size_list(array.type) else None
    if width is None:
        splits = array.offsets.to_numpy().astype(np.int64)
        inner = array.values.slice(splits[0], splits[-1] - splits[0])
        splits = splits - splits[0]
    else:
        splits = np.arange(len(array) + 1, dtype=np.int64) * width
        inner = array.flatten()
    if inner.null_count:
        holes = np.searchsorted(splits, np.flatnonzero(inner.is_null().to_numpy(zero_copy_only=False)), "right") - 1
        for row in np.unique(holes).tolist():
            bad[row if rows is None else int(rows[row])] = "a value inside the list is missing"
        inner = _filled(inner)
    values = _lists(inner, bad, None) if _is_list(inner.type) else _scalars(inner, bad, None)
    if width is None or not isinstance(values, np.ndarray):
        return Ragged(values, splits)
    return values.reshape(len(array), width, *values.shape[1:])


def _filled(array: Any) -> Any:
    """A placeholder for each null, so that the number of rows stays the same."""
    import pyarrow as pa

    if pa.types.is_null(array.type):
        return pa.array([""] * len(array))
    if _is_list(array.type):
        return array.fill_null(pa.scalar([], array.type))
    is_bytes = _dtype_of(array.type) == "bytes"
    return array.fill_null(b"" if is_bytes else "" if _dtype_of(array.type) == "str" else 0)


def cast_array(array: Any, dtype: str, bad: BadRows) -> Any:
    """An array as text or numbers. Numbers stay as they are: the writer casts and checks them."""
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_dictionary(array.type):
        array = array.dictionary_decode()
    if t.is_nested(array.type):
        return array  # the writer casts numbers in lists, too
    if dtype == "str":
        return array if t.is_string(array.type) or t.is_large_string(array.type) else array.cast(pa.string())
    if dtype == "bytes":
        return array if t.is_binary(array.type) else array.cast(pa.string()).cast(pa.binary())
    if t.is_string(array.type) or t.is_large_string(array.type):
        return cast_text(array, pa.float64() if dtype.startswith("float") else pa.int64(), bad)
    return array.cast(pa.int64()) if t.is_temporal(array.type) else array


def cast_text(array: Any, kind: Any, bad: BadRows, *, missing: Sequence[str] = ("",)) -> Any:
    """Text as another type; rows that do not parse are missing from the result, and added to `bad`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if array.type == kind:
        return array
    is_nothing = pc.is_in(array, value_set=pa.array(missing, array.type))
    array = pc.if_else(is_nothing, pa.scalar(None, array.type), array)
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        pass
    values: list[Any] = []
    for row, text in enumerate(array.to_pylist()):
        try:
            values.append(None if text is None else _cast_one(text, kind))
        except pa.ArrowInvalid:
            values.append(None)
            bad[row] = _why(text, kind)
    return pa.array(values, kind)


def _cast_one(text: str, kind: Any) -> Any:
    """One value, possibly an amount or a percentage. Raises the errors of Arrow."""
    import pyarrow as pa

    try:
        return pa.scalar(text.strip()).cast(kind).as_py()
    except pa.ArrowInvalid:
        if (plain := plain_number(text)) == text.strip() or not is_number(plain):
            raise
        return pa.scalar(plain).cast(kind).as_py()


def _why(text: str, kind: Any) -> str:
    import pyarrow.types as t

    if t.is_integer(kind) and text.strip().lstrip("+-").isdigit():
        return f"{text.strip()} does not fit {kind}"
    return f"{text[:60]!r} is not {'an integer' if t.is_integer(kind) else 'a number' if t.is_floating(kind) else kind}"


def spare_pandas() -> None:
    """Let Arrow do without pandas in this process: it would import it, if it is there, just to look for its objects."""
    import pyarrow as pa

    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(_NoPandas)


class _NoPandas:
    """An importer that finds no pandas."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)
