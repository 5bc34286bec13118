"""Rows of different lengths made arrays by TensorFlow's ops: padded, sparse, and batched with rows of like length."""

from __future__ import annotations

from typing import Any

import numpy as np

from bushel.data.schema import Schema
from bushel.errors import MissingName
from bushel.reading import Bucket, Dense, Pad, Sparse
from bushel.reading.layout import Layout
from bushel.reading.pipeline import Settings
from bushel.tensorflow.parsing import parse_fn
from bushel.tensorflow.specs import as_graph, load

__all__ = ["bucket_records", "lay_out"]


def lay_out(layout: tuple[Layout, ...], columns: dict[str, Any]) -> dict[str, Any]:
    """The columns of a batch after every step of a layout."""
    for step in layout:
        if isinstance(step, Pad):
            columns = _pad(step, columns)
        elif isinstance(step, Sparse):
            columns = _join(step, columns)
        elif isinstance(step, Dense):
            columns = {**columns, step.feature: load().sparse.to_dense(columns[step.feature])}
    return columns


def _pad(step: Pad, columns: dict[str, Any]) -> dict[str, Any]:
    tf = load()
    rows = columns[step.feature]
    if not isinstance(rows, tf.RaggedTensor):
        rows = tf.RaggedTensor.from_tensor(rows, row_splits_dtype=tf.int64)
    lengths = rows.row_lengths()
    longest = tf.reduce_max(tf.concat([lengths, [np.int64(0)]], 0))
    length = np.int64(step.length) if step.length else -(-longest // step.multiple) * step.multiple
    fill = tf.constant(step.fill, rows.dtype)
    inner = [None] * (rows.shape.rank - 2)
    padded = rows.to_tensor(fill, shape=[None, step.length, *inner])
    if step.length is None:
        missing = length - tf.shape(padded, tf.int64)[1]
        around = [[0, 0], [0, missing], *[[0, 0]] * len(inner)]
        padded = tf.pad(padded, around, constant_values=fill)
    out = {**columns, step.feature: padded}
    if step.mask:
        out[f"{step.feature}/mask"] = tf.sequence_mask(lengths, length)
    return out


def _join(step: Sparse, columns: dict[str, Any]) -> dict[str, Any]:
    tf = load()
    names = (f"{step.feature}/indices", f"{step.feature}/values")
    places, values = (columns[name] for name in names)
    message = f"{step.feature}: a record must have as many indices as values, all of them below {step.size}"
    checks = [
        tf.debugging.assert_equal(places.row_splits, values.row_splits, message),
        tf.debugging.assert_less(places.values, np.int64(step.size), message),
        tf.debugging.assert_non_negative(places.values, message),
    ]
    with tf.control_dependencies(checks):
        indices = tf.stack([places.value_rowids(), places.values], axis=1)
    joined = tf.sparse.reorder(tf.SparseTensor(indices, values.values, tf.stack([places.nrows(), step.size])))
    return {**{name: value for name, value in columns.items() if name not in names}, step.feature: joined}


def bucket_records(windows: Any, step: Bucket, schema: Schema, settings: Settings) -> Any:
    """Windows of raw records, each sorted by length, cut into batches, and the batches shuffled."""
    tf = load()
    if step.feature not in schema:
        raise MissingName("feature", step.feature, schema, where="layout")
    parse = parse_fn(schema, [step.feature])
    size = settings.batch_size

    def arrange(records: Any, seed: Any) -> Any:
        rows = parse(records)[step.feature]
        if isinstance(rows, tf.RaggedTensor):
            records = tf.gather(records, tf.argsort(rows.row_lengths(), stable=True))
        whole = tf.shape(records)[0] // size
        runs = tf.random.experimental.stateless_shuffle(tf.reshape(records[: whole * size], [whole, size]), seed)
        return tf.concat([tf.reshape(runs, [-1]), records[whole * size :]], 0)

    seeds = tf.data.Dataset.random(settings.order.seed, rerandomize_each_iteration=True).batch(2)
    return tf.data.Dataset.zip(windows, seeds).map(as_graph(arrange), tf.data.AUTOTUNE, deterministic=True)
