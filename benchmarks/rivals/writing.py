"""Writing: samples one by one or whole columns, to one file."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import tensorflow as tf
import tfrecord
from columns import Columns, Feature, Features, Sample, Split, samples

import bushel
from rivals import VAHIDK_TYPES


def tf_example(sample: Sample, features: Features) -> tf.train.Example:
    """Build the message as TensorFlow's tutorial does: one list per feature."""
    found = {name: _tf_list(value, features[name]) for name, value in sample.items()}
    return tf.train.Example(features=tf.train.Features(feature=found))


def _tf_list(value: np.ndarray | float | bytes, feature: Feature) -> tf.train.Feature:
    values = value if isinstance(value, (np.ndarray, list)) else [value]
    if feature.dtype == "float32":
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    if feature.dtype == "int64":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def write_tf_samples(path: Path, rows: Iterable[Sample], features: Features) -> None:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for sample in rows:
            writer.write(tf_example(sample, features).SerializeToString())


def write_vahidk_samples(path: Path, rows: Iterable[Sample], features: Features) -> None:
    typed = [(name, VAHIDK_TYPES[feature.dtype]) for name, feature in features.items()]
    writer = tfrecord.TFRecordWriter(str(path))
    for sample in rows:
        writer.write({name: (sample[name], word) for name, word in typed})
    writer.close()


def write_bushel_samples(path: Path, rows: Iterable[Sample]) -> None:
    with bushel.Writer(path) as writer:
        for sample in rows:
            writer.write(sample)


def write_bushel_batches(path: Path, batches: Iterable[dict[str, object]]) -> None:
    with bushel.Writer(path) as writer:
        for batch in batches:
            writer.write_batch(batch)


def to_bushel(columns: Columns, features: Features) -> dict[str, object]:
    """Turn columns into what `Writer.write_batch` takes."""
    return {name: _to_bushel(column, features[name]) for name, column in columns.items()}


def _to_bushel(column: np.ndarray | Split, feature: Feature) -> object:
    if not isinstance(column, Split):
        return column
    if feature.dtype == "bytes":
        return bushel.BytesColumn(column.splits, column.values)
    return bushel.Ragged(column.values, column.splits)


def _write_tf_chunks(path: Path, chunks: Iterable[Columns], features: Features) -> None:
    write_tf_samples(path, (sample for chunk in chunks for sample in samples(chunk, features)), features)


def _write_bushel_chunks(path: Path, chunks: Iterable[Columns], features: Features) -> None:
    write_bushel_batches(path, (to_bushel(chunk, features) for chunk in chunks))


WRITERS = {"bushel": _write_bushel_chunks, "tf": _write_tf_chunks}
