"""Batches as tensors: their specs, columns handed over, and records parsed by TensorFlow's own ops."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Ragged, SparseColumn, as_ragged, count_of
from bushel.data.schema import BYTES_KIND, FLOAT_KIND, INT_KIND, Feature, Schema
from bushel.errors import MissingName, SchemaMismatch, missing_package
from bushel.feeding.adapters import Fields, Request, fields_of, probe
from bushel.reading import Pack, Pad
from bushel.transforms.interface import Declaring, declared

__all__ = [
    "as_graph",
    "assemble",
    "components",
    "flat_specs",
    "load_tensorflow",
    "parse_fn",
    "parse_spec",
    "plan",
    "stored_dtype",
    "value_dtype",
]


_STORED = {BYTES_KIND: "string", FLOAT_KIND: "float32", INT_KIND: "int64"}


def load_tensorflow(purpose: str = "bushel.tensorflow") -> Any:
    """The module `tensorflow`."""
    try:
        import tensorflow
    except ImportError:
        raise missing_package("TensorFlow", extra="tensorflow", purpose=purpose) from None
    return tensorflow


def as_graph(function: Callable[..., Any]) -> Any:
    """A function for `Dataset.map` that consists of ops already, so that autograph need not rewrite its source."""
    return load_tensorflow().autograph.experimental.do_not_convert(function)


def stored_dtype(feature: Feature) -> Any:
    """The type of the list that holds a feature in a record."""
    return load_tensorflow().dtypes.as_dtype(_STORED[feature.kind])


def value_dtype(feature: Feature) -> Any:
    """The type of a feature's values after parsing; raw tensors keep their own."""
    is_own = feature.encoding in ("raw", "sparse") or feature.reads_as
    return load_tensorflow().dtypes.as_dtype(feature.value_dtype) if is_own else stored_dtype(feature)


def plan(request: Request) -> tuple[Fields, dict[str, Any]]:
    """How batches are arranged, and the type of each of their columns.

    Features that nothing changes are as in the schema; for the others, the first records show it.
    """
    settings, schema = request.settings, request.split.schema
    steps = (*settings.transforms, *settings.layout)
    columns: dict[str, Any] = dict(probe(request)) if steps else dict.fromkeys(request.columns)
    declared = _declared(settings.transforms) if not settings.layout else {}
    specs = {}
    for name, column in columns.items():
        if name in declared:
            specs[name] = _spec_of_feature(declared[name], request.rows)
        elif name in schema and not any(_changes(step, name) for step in steps):
            specs[name] = _spec_of_feature(schema[name], request.rows)
        else:
            specs[name] = _spec_of_column(column, request.rows, varies=_is_padded_to_longest(name, settings.layout))
    return fields_of(request, specs), specs


def _declared(transforms: tuple[Any, ...]) -> dict[str, Feature]:
    """The features that transforms declare, unless a later one changes them."""
    found: dict[str, Feature] = {}
    for step in transforms:
        found = {name: feature for name, feature in found.items() if not _changes(step, name)}
        found |= dict(step.makes()) if isinstance(step, Declaring) else {}
    return found


def _changes(step: Any, name: str) -> bool:
    """Whether a transform or layout changes a feature; one that does not say which may change any."""
    touches = declared(step).touches
    return touches is None or isinstance(step, Pack) or name in touches


def _is_padded_to_longest(name: str, layout: tuple[Any, ...]) -> bool:
    feature = name.removesuffix("/mask")
    return any(isinstance(step, Pad) and step.feature == feature and step.length is None for step in layout)


def _spec_of_feature(feature: Feature, rows: int | None) -> Any:
    tf = load_tensorflow()
    dtype = value_dtype(feature)
    if feature.encoding == "sparse":
        return tf.SparseTensorSpec([rows, *feature.shape], dtype)
    is_numbers = feature.kind != BYTES_KIND or feature.encoding == "raw"
    inner = [size for size in feature.shape if size is not None]
    if not feature.required and not feature.sequence:
        return tf.RaggedTensorSpec([rows, None], dtype, 1, tf.int64)
    if not (feature.is_ragged or feature.sequence):
        return tf.TensorSpec([rows, *inner], dtype)
    rank = feature.sequence + feature.is_ragged
    kept = inner if is_numbers or not feature.is_ragged else []
    return tf.RaggedTensorSpec([rows, *[None] * rank, *kept], dtype, rank, tf.int64)


def _spec_of_column(column: Any, rows: int | None, *, varies: bool) -> Any:
    tf = load_tensorflow()
    if isinstance(column, SparseColumn):
        return tf.SparseTensorSpec([rows, column.shape[1]], column.values.dtype)
    if isinstance(column, BytesColumn):
        return tf.TensorSpec([rows], tf.string)
    if isinstance(column, np.ndarray):
        inner = list(column.shape[1:])
        return tf.TensorSpec([rows, *([None, *inner[1:]] if varies else inner)], column.dtype)
    rank = 0
    while isinstance(column, Ragged):
        column, rank = column.values, rank + 1
    inner = [] if isinstance(column, BytesColumn) else list(column.shape[1:])
    dtype = tf.string if isinstance(column, BytesColumn) else column.dtype
    return tf.RaggedTensorSpec([rows, *[None] * rank, *inner], dtype, rank, tf.int64)


def flat_specs(spec: Any) -> list[Any]:
    """The plain tensors that a column is transferred as."""
    tf = load_tensorflow()
    if isinstance(spec, tf.SparseTensorSpec):
        return [tf.TensorSpec([None, 2], tf.int64), tf.TensorSpec([None], spec.dtype), tf.TensorSpec([2], tf.int64)]
    if not isinstance(spec, tf.RaggedTensorSpec):
        return [spec]
    values = tf.TensorSpec([None, *spec.shape[spec.ragged_rank + 1 :]], spec.dtype)
    outer = tf.TensorSpec([None if spec.shape[0] is None else spec.shape[0] + 1], tf.int64)
    return [values, outer, *[tf.TensorSpec([None], tf.int64)] * (spec.ragged_rank - 1)]


def components(name: str, column: Any, spec: Any) -> list[NDArray[Any]]:
    """A column as the arrays that `flat_specs` describes."""
    tf = load_tensorflow()
    if isinstance(column, SparseColumn):
        return [column.indices, column.values, np.array(column.shape, np.int64)]
    if not isinstance(spec, tf.RaggedTensorSpec):
        return [_dense(name, column, spec)]
    splits: list[NDArray[Any]] = []
    for _ in range(spec.ragged_rank):
        column = as_ragged(column)
        splits.append(column.row_splits)
        column = column.values
    values, splits[-1] = _flat_values(column, splits[-1], spec)
    return [values, *splits]


def _flat_values(column: Any, splits: NDArray[Any], spec: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Values with the dimensions of the spec: optional features come as flat lists, whatever their shape."""
    tf = load_tensorflow()
    if isinstance(column, BytesColumn) and spec.dtype != tf.string:  # raw tensors that some rows lack
        dtype = np.dtype(spec.dtype.as_numpy_dtype)
        return column.data.view(dtype), column.offsets[splits] // dtype.itemsize
    values = _plain(column)
    width = math.prod(values.shape[spec.shape.rank - spec.ragged_rank :])
    return values.reshape(-1, *spec.shape[spec.ragged_rank + 1 :]), splits * width


def _plain(column: Any) -> NDArray[Any]:
    values: NDArray[Any] = column.to_numpy() if isinstance(column, BytesColumn) else column
    return values


def _dense(name: str, column: Any, spec: Any) -> NDArray[Any]:
    if isinstance(column, Ragged):
        shape = [len(column), *spec.shape[1:]]
        if isinstance(column.values, Ragged) or (np.diff(column.lengths) != 0).any():
            raise SchemaMismatch(
                "rows of one batch differ in length, and the first records did not",
                at=name,
                help=["Give it a length: transforms that cut or resize, or layout=[Pad(...)]."],
            )
        return _plain(column.values).reshape(shape)
    return _plain(column)


def assemble(spec: Any, tensors: list[Any]) -> Any:
    """The tensors of `components` as one value."""
    tf = load_tensorflow()
    if isinstance(spec, tf.SparseTensorSpec):
        indices, values, shape = tensors
        return tf.SparseTensor(indices, values, tf.stack([shape[0], spec.shape[1]]))
    if isinstance(spec, tf.RaggedTensorSpec):
        return tf.RaggedTensor.from_nested_row_splits(tensors[0], tensors[1:], validate=False)
    return tensors[0]


Tensors: TypeAlias = dict[str, Any]
Columns: TypeAlias = Sequence[str] | Mapping[str, Any]

_BITCAST = {"uint32": "int32", "uint64": "int64"}  # tf.io.decode_raw knows only the signed ones


def parse_spec(schema: Schema, columns: Columns | None = None) -> Any:
    """The features of a schema as `tf.io.parse_example` takes them.

    For SequenceExamples it is a pair, of context and of sequence features, as `tf.io.parse_sequence_example` takes
    them. `columns` names the features to parse (default: all), or maps each to the expected type or `tf.io`
    feature; one that is not in the schema, or has another type there, is refused.

    >>> tf.io.parse_example(records, parse_spec(schema, ["image", "label"]))
    """
    chosen = choose(schema, columns)
    given = columns if isinstance(columns, Mapping) else {}
    parts: tuple[Tensors, Tensors] = ({}, {})
    for name, feature in chosen.items():
        expected = given.get(name)
        own = expected if _is_tf_feature(expected) else _tf_feature(name, feature)
        parts[feature.sequence][name] = own
    return parts if schema.record == "sequence_example" else parts[0]


def parse_fn(schema: Schema, columns: Columns | None = None) -> Callable[[Any], Tensors]:
    """A function from records (a vector of strings, or one string) to a dict of tensors, made of TensorFlow's ops.

    Raw tensors are decoded, and shapes are restored and known before the first record. Lists of varying length are
    ragged, and so are optional features.

    >>> tf.data.TFRecordDataset(files).batch(256).map(parse_fn(schema), tf.data.AUTOTUNE)
    """
    tf = load_tensorflow()
    chosen = choose(schema, columns)
    context = {name: _tf_feature(name, f) for name, f in chosen.items() if not f.sequence}
    lists = {name: _tf_feature(name, f) for name, f in chosen.items() if f.sequence}

    def parse_batch(records: Any) -> Tensors:
        if schema.record == "sequence_example":
            parsed, steps, _ = tf.io.parse_sequence_example(records, context or None, lists or None)
            parsed = {**parsed, **steps}
        else:
            parsed = tf.io.parse_example(records, context)
        return {name: _retyped(feature, _restore(name, feature, parsed[name])) for name, feature in chosen.items()}

    def parse(records: Any) -> Tensors:
        records = tf.convert_to_tensor(records, tf.string)
        if records.shape.rank == 0:
            return {name: _first_row(value) for name, value in parse_batch(records[None]).items()}
        return parse_batch(records)

    return as_graph(parse)  # type: ignore[no-any-return]


def choose(schema: Schema, columns: Columns | None) -> dict[str, Feature]:
    """The features to parse; refuses names that are not in the schema, and types that differ from it."""
    if isinstance(columns, str):
        raise ValueError(f"columns must be a list of names, got the string {columns!r}")
    if schema.record == "bytes":
        raise SchemaMismatch("the records are plain bytes, there is nothing to parse", at="schema")
    names = schema.features if columns is None else columns
    for name in names:
        if name not in schema:
            raise MissingName("feature", name, schema, where="schema")
        _check_shape(name, schema[name])
        if isinstance(columns, Mapping) and columns[name] is not None:
            _check_expected(name, schema[name], columns[name])
    return {name: schema[name] for name in names}


def _check_shape(name: str, feature: Feature) -> None:
    if None in feature.shape[1:]:
        raise ValueError(f"shape of {name!r}: only the first size may vary, got {feature.shape}")


def _is_tf_feature(expected: Any) -> bool:
    return hasattr(expected, "dtype") and type(expected).__name__.endswith("Feature")


def _check_expected(name: str, feature: Feature, expected: Any) -> None:
    """Refuse an expected type that differs from the schema."""
    tf = load_tensorflow()
    is_spec = _is_tf_feature(expected)
    wanted = tf.dtypes.as_dtype(expected.dtype if is_spec else expected)
    actual = stored_dtype(feature) if is_spec else value_dtype(feature)
    if wanted != actual:
        raise SchemaMismatch(f"expected {wanted.name}, got {feature.describe()}", at=name)
    if not isinstance(expected, tf.io.FixedLenFeature | tf.io.FixedLenSequenceFeature):
        return
    shape = [] if feature.is_one_value else list(feature.shape)
    if list(expected.shape) != shape or (not feature.required and getattr(expected, "default_value", 0) is None):
        raise SchemaMismatch(f"expected {wanted.name}{list(expected.shape)}, got {feature.describe()}", at=name)


def _tf_feature(name: str, feature: Feature) -> Any:
    tf = load_tensorflow()
    dtype = stored_dtype(feature)
    if feature.encoding == "sparse":
        return tf.io.SparseFeature(f"{name}/indices", f"{name}/values", value_dtype(feature), feature.shape[0])
    if feature.sequence or not feature.required or (feature.is_ragged and not feature.is_one_value):
        return tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64)
    return tf.io.FixedLenFeature([] if feature.is_one_value else feature.shape, dtype)


def _retyped(feature: Feature, value: Any) -> Any:
    """Values in the type that they had before they were stored."""
    tf = load_tensorflow()
    if not feature.reads_as:
        return value
    if feature.reads_as != "uint64":
        return tf.cast(value, feature.reads_as)
    # TensorFlow Datasets stores the bits.
    is_ragged = isinstance(value, tf.RaggedTensor)
    return tf.ragged.map_flat_values(tf.bitcast, value, tf.uint64) if is_ragged else tf.bitcast(value, tf.uint64)


def _restore(name: str, feature: Feature, value: Any) -> Any:
    """Restore what was stored: decode raw tensors, and restore shapes."""
    tf = load_tensorflow()
    if feature.encoding == "sparse":
        return value
    if feature.sequence:
        steps = value.values  # one row per step, of all records
        inner = _restore_lists(name, feature, steps)
        return tf.RaggedTensor.from_row_splits(inner, value.row_splits, validate=False)
    if not feature.required:
        return _flat_raw(name, feature, value) if feature.encoding == "raw" else value
    if feature.encoding == "raw":
        return _decode_raw(name, feature, value)
    return _reshape_rows(name, feature, value) if feature.is_ragged and not feature.is_one_value else value


def _restore_lists(name: str, feature: Feature, rows: Any) -> Any:
    """The steps of sequences, each with the shape of one step."""
    tf = load_tensorflow()
    if feature.is_ragged and not feature.is_one_value:
        return _reshape_rows(name, feature, rows)
    count = 1 if feature.is_one_value else count_of(feature.shape)
    message = f"{name}: a step does not hold {feature.describe().removeprefix('sequence of ')}"
    with tf.control_dependencies([tf.debugging.assert_equal(rows.row_lengths(), np.int64(count), message)]):
        values = tf.identity(rows.values)
    if feature.encoding == "raw":
        return _decode_raw(name, feature, values)
    return values if feature.is_one_value else tf.reshape(values, [-1, *feature.shape])


def _reshape_rows(name: str, feature: Feature, rows: Any) -> Any:
    """Rows of flat values as rows with more dimensions."""
    tf = load_tensorflow()
    inner = feature.shape[1:]
    if not inner or feature.kind == BYTES_KIND:
        return rows
    width = np.int64(count_of(inner))
    message = f"{name}: a record does not hold {feature.describe()}"
    with tf.control_dependencies([tf.debugging.assert_equal(rows.row_lengths() % width, np.int64(0), message)]):
        values = tf.reshape(rows.values, [-1, *inner])
    return tf.RaggedTensor.from_row_splits(values, rows.row_splits // width, validate=False)


def _decode_raw(name: str, feature: Feature, value: Any) -> Any:
    tf = load_tensorflow()
    inner = [size for size in feature.shape if size is not None]
    step = np.dtype(feature.dtype).itemsize * count_of(inner)
    sizes = tf.cast(tf.strings.length(value), tf.int64)
    remainder = sizes % step if feature.is_ragged else sizes - step
    message = f"{name}: the bytes of a record are not {feature.describe()}, which takes {step}"
    with tf.control_dependencies([tf.debugging.assert_equal(remainder, np.int64(0), message)]):
        joined = tf.strings.reduce_join(value) if feature.is_ragged else tf.identity(value)
    numbers = tf.io.decode_raw(joined, _BITCAST.get(feature.dtype, feature.dtype))
    if feature.dtype in _BITCAST:
        numbers = tf.bitcast(numbers, feature.dtype)
    if not feature.is_ragged:
        rows = value.shape[0] if value.shape[0] is not None else tf.shape(value)[0]
        return tf.reshape(numbers, [rows, *inner])
    return tf.RaggedTensor.from_row_lengths(tf.reshape(numbers, [-1, *inner]), sizes // step, validate=False)


def _flat_raw(name: str, feature: Feature, value: Any) -> Any:
    """Raw tensors that some records lack, as flat lists like all optional features."""
    tf = load_tensorflow()
    decoded = _decode_raw(name, feature, value.values)
    if not feature.is_ragged:
        flat = tf.reshape(decoded, [-1])
        return tf.RaggedTensor.from_row_splits(flat, value.row_splits * count_of(feature.shape), validate=False)
    ends = tf.gather(decoded.row_splits, value.row_splits) * count_of(feature.shape)
    return tf.RaggedTensor.from_row_splits(tf.reshape(decoded.values, [-1]), ends, validate=False)


def _first_row(value: Any) -> Any:
    tf = load_tensorflow()
    if isinstance(value, tf.SparseTensor):
        return tf.sparse.reshape(value, value.dense_shape[1:])
    return value[0]
