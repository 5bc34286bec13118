"""What a batch is in TensorFlow's terms, known before the first one; and columns handed over as tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Ragged, SparseColumn, as_ragged
from bushel.data.schema import BYTES_KIND, FLOAT_KIND, INT_KIND, Feature
from bushel.errors import SchemaMismatch, missing_package
from bushel.feeding.request import Fields, Request, fields_of, probe
from bushel.reading import Pack, Pad
from bushel.transforms.protocol import Declaring

__all__ = ["as_graph", "assemble", "components", "flat_specs", "load", "plan", "stored_dtype", "value_dtype"]


_STORED = {BYTES_KIND: "string", FLOAT_KIND: "float32", INT_KIND: "int64"}


def load() -> Any:
    """The module `tensorflow`."""
    try:
        import tensorflow
    except ImportError:
        raise missing_package("TensorFlow", extra="tensorflow", purpose="bushel.tensorflow") from None
    return tensorflow


def as_graph(function: Callable[..., Any]) -> Any:
    """A function for `Dataset.map` that is made of ops already, so that no time goes into rewriting its source."""
    return load().autograph.experimental.do_not_convert(function)


def stored_dtype(feature: Feature) -> Any:
    """The type of the list that holds a feature in a record."""
    return load().dtypes.as_dtype(_STORED[feature.kind])


def value_dtype(feature: Feature) -> Any:
    """The type of a feature's values once they are parsed: that of raw tensors is their own."""
    tf = load()
    if feature.encoding == "sparse":
        return tf.dtypes.as_dtype(feature.dtype)
    return tf.dtypes.as_dtype(feature.dtype) if feature.encoding == "raw" else stored_dtype(feature)


def plan(request: Request) -> tuple[Fields, dict[str, Any]]:
    """How batches are arranged, and the type of each of their columns.

    Features that nothing changes are what the schema says; the others are what becomes of the first records.
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
    """What transforms say that they make, where no later one changes it."""
    found: dict[str, Feature] = {}
    for step in transforms:
        found = {name: feature for name, feature in found.items() if not _changes(step, name)}
        found |= dict(step.makes()) if isinstance(step, Declaring) else {}
    return found


def _changes(step: Any, name: str) -> bool:
    """Whether a transform or layout changes a feature; one that does not say which may change any."""
    named = [getattr(step, field) for field in ("feature", "label", "out") if hasattr(step, field)]
    return not named or isinstance(step, Pack) or name in named


def _is_padded_to_longest(name: str, layout: tuple[Any, ...]) -> bool:
    feature = name.removesuffix("/mask")
    return any(isinstance(step, Pad) and step.feature == feature and step.length is None for step in layout)


def _spec_of_feature(feature: Feature, rows: int | None) -> Any:
    tf = load()
    dtype = value_dtype(feature)
    if feature.encoding == "sparse":
        return tf.SparseTensorSpec([rows, *feature.shape], dtype)
    is_numbers = feature.kind != BYTES_KIND or feature.encoding == "raw"
    is_list = feature.encoding in ("list", "raw")
    inner = [size for size in feature.shape if size is not None] if is_list else []
    is_ragged = feature.is_ragged and is_list
    if not feature.required and not feature.sequence:
        return tf.RaggedTensorSpec([rows, None], dtype, 1, tf.int64)
    if not (is_ragged or feature.sequence):
        return tf.TensorSpec([rows, *inner], dtype)
    rank = feature.sequence + is_ragged
    kept = inner if is_numbers or not is_ragged else []
    return tf.RaggedTensorSpec([rows, *[None] * rank, *kept], dtype, rank, tf.int64)


def _spec_of_column(column: Any, rows: int | None, *, varies: bool) -> Any:
    tf = load()
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
    """The plain tensors that a column travels as."""
    tf = load()
    if isinstance(spec, tf.SparseTensorSpec):
        return [tf.TensorSpec([None, 2], tf.int64), tf.TensorSpec([None], spec.dtype), tf.TensorSpec([2], tf.int64)]
    if not isinstance(spec, tf.RaggedTensorSpec):
        return [spec]
    values = tf.TensorSpec([None, *spec.shape[spec.ragged_rank + 1 :]], spec.dtype)
    outer = tf.TensorSpec([None if spec.shape[0] is None else spec.shape[0] + 1], tf.int64)
    return [values, outer, *[tf.TensorSpec([None], tf.int64)] * (spec.ragged_rank - 1)]


def components(name: str, column: Any, spec: Any) -> list[NDArray[Any]]:
    """A column as the arrays that `flat_specs` describes."""
    tf = load()
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
    """Values of the dimensions of the spec: what a record may lack comes as flat lists, whatever its shape."""
    tf = load()
    if isinstance(column, BytesColumn) and spec.dtype != tf.string:  # raw tensors, of which some rows have none
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
    """The tensors of `components` as one."""
    tf = load()
    if isinstance(spec, tf.SparseTensorSpec):
        indices, values, shape = tensors
        return tf.SparseTensor(indices, values, tf.stack([shape[0], spec.shape[1]]))
    if isinstance(spec, tf.RaggedTensorSpec):
        return tf.RaggedTensor.from_nested_row_splits(tensors[0], tensors[1:], validate=False)
    return tensors[0]
