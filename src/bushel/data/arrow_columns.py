"""Columns as Arrow has them: one type for each feature, known before any record is read.

Arrays of one shape are tensors, dates are timestamps, codes of classes are dictionaries of their names, and encoded
images are pairs of bytes and path, as Hugging Face's `datasets` has them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import msgspec
import numpy as np

from bushel.data.columns import BytesColumn, Column, Ragged, SparseColumn, part_sparse
from bushel.data.schema import BYTES_KIND, IMAGE_ENCODINGS, Feature, Schema, wire_features
from bushel.errors import SchemaMismatch

__all__ = ["arrow_schema", "record_batch", "to_arrow"]


def arrow_schema(schema: Schema, classes: Mapping[str, Sequence[str]]) -> Any:
    """The schema in Arrow; `classes` are names of codes, by feature. A sparse feature is its two lists."""
    import pyarrow as pa

    wires = wire_features(schema.features)
    fields = [pa.field(name, _type_of(name, feature, classes.get(name, ()))) for name, feature in wires.items()]
    metadata = {"bushel": msgspec.json.encode(schema)}
    if images := {name: {"_type": "Image"} for name, feature in schema.features.items() if _is_image(feature)}:
        metadata["huggingface"] = json.dumps({"info": {"features": images}}).encode()
    return pa.schema(fields, metadata=metadata)


def record_batch(columns: Mapping[str, Any], kind: Any, schema: Schema, classes: Mapping[str, Sequence[str]]) -> Any:
    """Columns of some records, with the types of `arrow_schema`."""
    import pyarrow as pa

    plain: dict[str, Any] = {}
    for name, column in columns.items():
        plain |= part_sparse(name, column) if isinstance(column, SparseColumn) else {name: column}
    wires = wire_features(schema.features)
    arrays = [_typed(plain[field.name], field, wires[field.name], classes.get(field.name, ())) for field in kind]
    return pa.record_batch(arrays, schema=kind)


def _is_image(feature: Feature) -> bool:
    return feature.encoding in IMAGE_ENCODINGS and feature.shape == () and not feature.sequence


def _is_tensor(feature: Feature) -> bool:
    """Whether all values are arrays of one shape."""
    is_stored_as_bytes = feature.kind == BYTES_KIND and feature.encoding != "raw"
    return bool(feature.shape) and all(feature.shape) and not feature.sequence and not is_stored_as_bytes


def _type_of(name: str, feature: Feature, classes: Sequence[str]) -> Any:
    import pyarrow as pa

    if _is_image(feature):
        return pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    if classes and feature.shape == () and not feature.sequence:
        return pa.dictionary(pa.int32(), pa.string())
    value = _value_type(name, feature)
    if _is_tensor(feature):
        return pa.fixed_shape_tensor(value, feature.shape)
    for size in reversed(feature.shape):
        value = pa.list_(value, size) if size and not _is_text(value) else pa.large_list(value)
    return pa.large_list(value) if feature.sequence else value


def _value_type(name: str, feature: Feature) -> Any:
    import pyarrow as pa

    if feature.meaning == "date":
        return pa.timestamp("us", "UTC")
    if feature.encoding in IMAGE_ENCODINGS or feature.value_dtype == "bytes":
        return pa.large_binary()
    if feature.value_dtype == "str":
        return pa.large_string()
    try:
        return pa.from_numpy_dtype(np.dtype(feature.value_dtype))
    except pa.ArrowNotImplementedError:
        raise SchemaMismatch(f"Arrow has no type for {feature.value_dtype}: choose other columns", at=name) from None


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind))


def _typed(column: Column, field: Any, feature: Feature, classes: Sequence[str]) -> Any:
    """A column in the type of its field."""
    import pyarrow as pa

    kind = field.type
    if isinstance(kind, pa.FixedShapeTensorType):
        return pa.ExtensionArray.from_storage(kind, _tensors(column, prod(kind.shape)))
    array = _array(column, feature)
    if pa.types.is_dictionary(kind):
        return _named_codes(array, classes, field.name)
    if _is_image(feature):
        pairs = [array.cast(pa.binary()), pa.nulls(len(array), pa.string())]
        return pa.StructArray.from_arrays(pairs, fields=list(kind), mask=array.is_null())
    if array.type == kind:
        return array
    if feature.dtype == "str" and pa.types.is_large_binary(array.type):
        raise SchemaMismatch("a text is not UTF-8: choose other columns, or open it as bytes", at=field.name)
    return array.cast(kind)


def _tensors(column: Column, size: int) -> Any:
    """Lists of one size, null where a record lacks them."""
    import pyarrow as pa

    values = column.values if isinstance(column, Ragged) else column
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).reshape(-1)), size)
    if not isinstance(column, Ragged) or column.present is None:
        return lists
    present = np.asarray(column.present)
    return lists.take(pa.array(np.cumsum(present) - 1, mask=~present))


def _named_codes(codes: Any, classes: Sequence[str], name: str) -> Any:
    """Codes of classes with their names; -1 is no class, as in test splits of TensorFlow Datasets."""
    import pyarrow as pa
    import pyarrow.compute as pc

    codes = pc.if_else(pc.equal(codes, -1), pa.scalar(None, codes.type), codes)
    bounds = pc.min_max(codes).as_py()
    if bounds["max"] is not None and not 0 <= bounds["min"] <= bounds["max"] < len(classes):
        bad = bounds["min"] if bounds["min"] < 0 else bounds["max"]
        raise SchemaMismatch(f"the label {bad} has no name among {len(classes)} classes", at=name)
    return pa.DictionaryArray.from_arrays(codes.cast(pa.int32()), pa.array(list(classes), pa.string()))


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
