"""Reading: the timed work of each rival, and its result in a form that can be compared."""

import gzip
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
import tensorflow as tf
import tfrecord
from columns import BATCH, Columns, Feature, Features, Sample, Split, batches, difference, gather, split_rows
from crc32c import crc32c

import bushel
from rivals import VAHIDK_TYPES

READ_AHEAD = 8 << 20


@dataclass(frozen=True)
class Reader:
    """`prepare` returns what is timed: a call whose result is iterated to its end.

    `convert` turns that result into batches of BATCH records, to be compared.
    """

    prepare: Callable[[Path, Features], Callable[[], Iterable]]
    convert: Callable[[Iterable, Features], Iterator[Columns]]
    is_slow: bool = False


def check(reader: Reader, path: Path, features: Features, chunks: Iterable[Columns]) -> None:
    """Read the whole of `path` and demand the values of `chunks`, in order."""
    wanted = (batch for chunk in chunks for batch in batches(chunk))
    got = reader.convert(reader.prepare(path, features)(), features)
    for number, (one, other) in enumerate(zip(wanted, got, strict=True)):
        name = difference({name: one[name] for name in features}, other)
        if name is not None:
            raise SystemExit(f"{path}: {reader.prepare.__name__}: other values of {name} in batch {number} of {BATCH}")


def prepare_tf_data(path: Path, features: Features) -> Callable[[], Iterable]:
    spec = {name: _tf_feature(feature) for name, feature in features.items()}
    dataset = (
        tf.data.TFRecordDataset(str(path), compression_type=_tf_compression(path), buffer_size=READ_AHEAD)
        .batch(BATCH)
        .map(lambda records: tf.io.parse_example(records, spec), num_parallel_calls=tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
    )
    return lambda: dataset


def _tf_feature(feature: Feature) -> tf.io.FixedLenFeature | tf.io.RaggedFeature:
    dtype = tf.string if feature.dtype == "bytes" else tf.as_dtype(feature.dtype)
    if feature.length is None:
        return tf.io.RaggedFeature(dtype)
    return tf.io.FixedLenFeature([] if feature.length == 1 else [feature.length], dtype)


def _tf_compression(path: Path) -> str:
    return "GZIP" if path.suffix == ".gz" else ""


def convert_tf_data(dataset: Iterable, features: Features) -> Iterator[Columns]:
    for batch in dataset:
        yield {name: _tf_column(batch[name]) for name in features}


def _tf_column(tensor: tf.Tensor | tf.RaggedTensor) -> np.ndarray | Split:
    if isinstance(tensor, tf.RaggedTensor):
        return Split(tensor.values.numpy(), tensor.row_splits.numpy())
    return split_rows(tensor.numpy().tolist()) if tensor.dtype == tf.string else tensor.numpy()


def prepare_vahidk(path: Path, features: Features) -> Callable[[], Iterable]:
    return partial(
        tfrecord.tfrecord_loader,
        str(path),
        None,
        {name: VAHIDK_TYPES[feature.dtype] for name, feature in features.items()},
        compression_type="gzip" if path.suffix == ".gz" else None,
    )


def prepare_protobuf(path: Path, features: Features) -> Callable[[], Iterable]:
    return lambda: (_protobuf_sample(record, features) for record in _records(path))


def _records(path: Path) -> Iterator[bytes]:
    with _open(path) as file:
        while header := file.read(12):
            length, length_crc = struct.unpack("<QI", header)
            record = file.read(length)
            (record_crc,) = struct.unpack("<I", file.read(4))
            if _masked(header[:8]) != length_crc or _masked(record) != record_crc:
                raise SystemExit(f"{path}: a checksum does not match")
            yield record


def _open(path: Path) -> BinaryIO:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb", READ_AHEAD)


def _masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _protobuf_sample(record: bytes, features: Features) -> Sample:
    found = tf.train.Example.FromString(record).features.feature
    return {name: _protobuf_value(found[name], feature) for name, feature in features.items()}


def _protobuf_value(found: tf.train.Feature, feature: Feature) -> np.ndarray | bytes:
    if feature.dtype == "float32":
        return np.array(found.float_list.value, np.float32)
    if feature.dtype == "int64":
        return np.array(found.int64_list.value, np.int64)
    return found.bytes_list.value[0]


def convert_samples(rows: Iterable[Sample], features: Features) -> Iterator[Columns]:
    rows = iter(rows)
    while group := list(islice(rows, BATCH)):
        yield gather(group, features)


def prepare_bushel(path: Path, features: Features) -> Callable[[], Iterable]:
    return lambda: [bushel.read(path, columns=list(features))]


def convert_bushel(result: Iterable, features: Features) -> Iterator[Columns]:
    for columns in result:
        yield from batches({name: _from_bushel(columns[name]) for name in features})


def _from_bushel(column: object) -> np.ndarray | Split:
    if isinstance(column, bushel.BytesColumn):
        return Split(column.data, column.offsets)
    if isinstance(column, bushel.Ragged):
        return Split(column.values, column.row_splits)
    return column


READERS = {
    "tf.data": Reader(prepare_tf_data, convert_tf_data),
    "vahidk": Reader(prepare_vahidk, convert_samples, is_slow=True),
    "protobuf": Reader(prepare_protobuf, convert_samples, is_slow=True),
    "bushel": Reader(prepare_bushel, convert_bushel),
}
