"""Some known records of the files or arrays that a pipeline begins with, which can be shown to it changed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from bushel.checking.running.replacements import paths
from bushel.records.files import open_file

Row: TypeAlias = dict[str, Any]  # a record by feature; what a value is, only its source knows

SCANNED = 2000  # records from which the known ones are taken, spread over all files
SCANNED_BYTES = 48 << 20
MOST_CLASSES = 40  # values of a feature of which each gets a known record
EDGES = 4  # records at the beginning and at the end
AT_RANDOM = 8
MOST_KNOWN = 48
MOST_KNOWN_BYTES = 8 << 20


class Source(Protocol):
    """Where a pipeline begins."""

    rows: list[Row]
    names: set[str]  # of the features that any record has

    def show(self, rows: Sequence[Row]) -> None:
        """Let the next pass begin with these records."""


def value_of(stored: Any) -> str | None:
    """A single number or word of a feature, as text; None if it holds something else."""
    if isinstance(stored, bytes):
        return _single(stored)
    if not isinstance(stored, np.ndarray | np.generic):
        return None  # a list of features
    array = np.asarray(stored)
    if array.size != 1:
        return None
    value = array.reshape(-1)[0]
    return f"{value:g}" if isinstance(value, np.number) else str(value)[:60]


def _single(stored: bytes) -> str | None:
    """The same of a feature as protocol buffers write it."""
    import tensorflow as tf

    try:
        feature = tf.train.Feature.FromString(stored)
    except Exception:
        return None
    kind = feature.WhichOneof("kind")
    values: list[Any] = list(getattr(feature, kind).value) if kind else []
    if len(values) != 1:
        return None
    value = values[0]
    if isinstance(value, bytes):
        return value.decode() if len(value) <= 60 and value.isascii() else None
    return f"{value:g}"


def is_bytes(stored: Any) -> bool:
    """Whether a feature holds texts, images or other bytes."""
    if isinstance(stored, bytes):
        return stored[:1] == b"\x0a"  # the first field of a Feature is its list of bytes
    return isinstance(stored, np.ndarray | np.generic) and stored.dtype.kind in "OSU"


def feature_of(like: Any, number: int) -> bytes:
    """A feature with values that differ from `like` and from record to record."""
    import tensorflow as tf

    values = np.asarray(like).reshape(-1)
    if values.dtype.kind in "OSU":
        kind = {"bytes_list": tf.train.BytesList(value=[b"%d" % (number % 7) for _ in values])}
    elif values.dtype.kind == "f":
        kind = {"float_list": tf.train.FloatList(value=values + 1 + number % 7)}
    else:
        kind = {"int64_list": tf.train.Int64List(value=values + 1 + number % 7)}
    return bytes(tf.train.Feature(**kind).SerializeToString())


class RecordFileSource:
    """Records of TFRecord files, in a file of their own that is written again for each pass."""

    def __init__(self, files: Sequence[str]) -> None:
        self.path = f"{paths.top}/tmp/known-{next(_numbers)}.tfrecord"
        self.compression = _compression_of(files[0])
        scanned = list(_scan(files))
        self.is_sequence = bool(scanned) and _is_sequence(scanned[0])
        rows = [self._parse(record) for record in scanned]
        self.names = {name for row in rows for name in row}
        self.rows = choose(rows)
        self.show(self.rows)

    def show(self, rows: Sequence[Row]) -> None:
        """Write the file."""
        import tensorflow as tf

        with tf.io.TFRecordWriter(self.path, self.compression or None) as writer:
            for row in rows:
                writer.write(self._record(row))

    def _parse(self, record: bytes) -> Row:
        import tensorflow as tf

        if not self.is_sequence:
            features = tf.train.Example.FromString(record).features.feature
            return {name: features[name].SerializeToString(deterministic=True) for name in sorted(features)}
        whole = tf.train.SequenceExample.FromString(record)
        row: Row = {name: value.SerializeToString() for name, value in whole.context.feature.items()}
        return row | dict(whole.feature_lists.feature_list.items())

    def _record(self, row: Row) -> bytes:
        import tensorflow as tf

        whole = tf.train.SequenceExample() if self.is_sequence else tf.train.Example()
        context = whole.context if self.is_sequence else whole.features
        for name, value in row.items():
            if isinstance(value, bytes):
                context.feature[name].ParseFromString(value)
            else:
                whole.feature_lists.feature_list[name].CopyFrom(value)
        return bytes(whole.SerializeToString())


_numbers = itertools.count(1)


def _compression_of(path: str) -> str:
    known = {file["path"]: file["compression"] for file in paths.files}
    if path in known:
        return str(known[path]).upper().replace("NONE", "")
    return (open_file(Path(path)).compression or "").upper()


def _scan(files: Sequence[str]) -> Iterator[bytes]:
    """Records from the whole length of all files; of large ones from their beginning alone."""
    import tensorflow as tf

    dataset = tf.data.TFRecordDataset(list(files), compression_type=_compression_of(files[0]))
    total = sum(int(file.get("records", 0)) for file in paths.files if file["path"] in set(files))
    if total > SCANNED and all(int(file.get("bytes", 0)) < 4 * SCANNED_BYTES for file in paths.files):
        dataset = dataset.shard(-(-total // SCANNED), 0)
    size = 0
    for record in dataset.take(SCANNED).as_numpy_iterator():
        size += len(record)
        yield record
        if size > SCANNED_BYTES:
            return


def _is_sequence(record: bytes) -> bool:
    """Whether a record has lists of features; an Example has none, and its features are a context."""
    import tensorflow as tf

    return bool(tf.train.SequenceExample.FromString(record).feature_lists.feature_list)


class SlicedArrays:
    """Rows of arrays that are cut into a dataset."""

    def __init__(self, tensors: Any) -> None:
        import tensorflow as tf

        arrays = tf.nest.map_structure(lambda part: np.asarray(getattr(part, "numpy", lambda: part)()), tensors)
        self._structure = arrays
        flat = tf.nest.flatten(arrays)
        stride = max(1, -(-len(flat[0]) // SCANNED))
        names = [f"array {number}" for number in range(len(flat))]
        at = range(0, len(flat[0]), stride)
        self.rows = choose([dict(zip(names, (part[i] for part in flat), strict=True)) for i in at])
        self.names = set(names)
        self._shown: list[Row] = self.rows

    def show(self, rows: Sequence[Row]) -> None:
        """Keep them for whoever iterates."""
        self._shown = list(rows)

    def dataset(self) -> Any:
        """The rows that are shown, each time it is iterated over."""
        import tensorflow as tf

        def of_row(part: Any) -> Any:
            return tf.TensorSpec(part.shape[1:], tf.string if part.dtype.kind in "OSU" else part.dtype)

        def draw() -> Iterator[Any]:
            for row in self._shown:
                yield tf.nest.pack_sequence_as(self._structure, list(row.values()))

        signature = tf.nest.map_structure(of_row, self._structure)
        return tf.data.Dataset.from_generator(draw, output_signature=signature)


def choose(rows: list[Row]) -> list[Row]:
    """The first and the last, one for each value of a feature that has a few, and some at random; in their order."""
    count = len(rows)
    chosen = {*range(min(EDGES, count)), *range(max(0, count - EDGES), count)}
    names = {name for row in rows[:EDGES] for name in row}
    for name in sorted(names):
        first: dict[str | None, int] = {}
        for number, row in enumerate(rows):
            first.setdefault(value_of(row[name]) if name in row else None, number)
            if len(first) > MOST_CLASSES:
                break
        else:
            chosen |= {number for value, number in first.items() if value is not None}
    draw = random.Random(0)
    chosen |= set(draw.sample(range(count), min(AT_RANDOM, count)))
    while len(chosen) < min(MOST_KNOWN // 2, count):
        chosen.add(draw.randrange(count))
    kept: list[Row] = []
    size = 0
    for number in sorted(chosen):
        size += sum(_size(value) for value in rows[number].values())
        if kept and size > MOST_KNOWN_BYTES:
            break
        kept.append(rows[number])
    return kept


def _size(value: Any) -> int:
    return len(value) if isinstance(value, bytes) else int(getattr(value, "nbytes", 1024))
