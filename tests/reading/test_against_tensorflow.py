"""Values equal to tf.data's, for every kind of feature, in records that TensorFlow wrote."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel import Feature, Order, Pad, Schema, Sparse

tf = pytest.importorskip("tensorflow")

ROWS = 57
BATCH = 8


def features(number: int) -> dict[str, Any]:
    generator = np.random.default_rng(number)
    count = int(generator.integers(0, 6))
    return {
        "float": tf.train.Feature(float_list=tf.train.FloatList(value=[number / 3])),
        "floats": tf.train.Feature(float_list=tf.train.FloatList(value=generator.normal(size=12))),
        "int": tf.train.Feature(int64_list=tf.train.Int64List(value=[-number * 2**40])),
        "ints": tf.train.Feature(int64_list=tf.train.Int64List(value=generator.integers(-(2**62), 2**62, count))),
        "bytes": tf.train.Feature(bytes_list=tf.train.BytesList(value=[generator.bytes(count)])),
        "names": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"a" * i for i in range(count)])),
        "raw": tf.train.Feature(bytes_list=tf.train.BytesList(value=[np.full((2, 3), number, np.float64).tobytes()])),
        "sparse/indices": tf.train.Feature(int64_list=tf.train.Int64List(value=range(count))),
        "sparse/values": tf.train.Feature(float_list=tf.train.FloatList(value=[1.5] * count)),
    }


SPEC = {
    "float": tf.io.FixedLenFeature([], tf.float32),
    "floats": tf.io.FixedLenFeature([3, 4], tf.float32),
    "int": tf.io.FixedLenFeature([], tf.int64),
    "ints": tf.io.RaggedFeature(tf.int64),
    "bytes": tf.io.FixedLenFeature([], tf.string),
    "names": tf.io.RaggedFeature(tf.string),
    "raw": tf.io.FixedLenFeature([], tf.string),
    "sparse": tf.io.SparseFeature("sparse/indices", "sparse/values", tf.float32, 10),
}
SCHEMA = Schema.of(
    **{
        "float": Feature(dtype="float32"),
        "floats": Feature(dtype="float32", shape=(3, 4)),
        "int": Feature(dtype="int64"),
        "ints": Feature(dtype="int64", shape=(None,)),
        "bytes": Feature(dtype="bytes"),
        "names": Feature(dtype="bytes", shape=(None,)),
        "raw": Feature(dtype="float64", shape=(2, 3)),
        "sparse/indices": Feature(dtype="int64", shape=(None,)),
        "sparse/values": Feature(dtype="float32", shape=(None,)),
    }
)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "data.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in range(ROWS):
            example = tf.train.Example(features=tf.train.Features(feature=features(number)))
            writer.write(example.SerializeToString())
    return path


def test_every_kind_of_feature_of_examples(written: Path) -> None:
    data = bushel.open(written, schema=SCHEMA)["all"]
    feed = bushel.batches(data, batch_size=BATCH, layout=[Sparse("sparse", 10)])
    theirs = tf.data.TFRecordDataset(str(written)).batch(BATCH).map(lambda r: tf.io.parse_example(r, SPEC))
    for ours, other in zip(feed, theirs, strict=True):
        for name in ("float", "floats", "int"):
            assert np.array_equal(ours[name], other[name].numpy())
        assert ours["ints"].to_list() == other["ints"].to_list()
        assert ours["bytes"].to_list() == other["bytes"].numpy().tolist()
        assert ours["names"].to_list() == other["names"].to_list()
        raw = tf.reshape(tf.io.decode_raw(other["raw"], tf.float64), [-1, 2, 3])
        assert np.array_equal(ours["raw"], raw.numpy())
        assert np.array_equal(ours["sparse"].indices, other["sparse"].indices.numpy())
        assert np.array_equal(ours["sparse"].values, other["sparse"].values.numpy())
        assert ours["sparse"].shape == tuple(other["sparse"].dense_shape.numpy())
        assert np.array_equal(ours["sparse"].to_dense(), tf.sparse.to_dense(other["sparse"]).numpy())


def test_rows_padded_to_the_longest(written: Path) -> None:
    feed = bushel.batches(bushel.open(written, schema=SCHEMA)["all"], batch_size=BATCH, layout=[Pad("ints", fill=-1)])
    theirs = tf.data.TFRecordDataset(str(written)).batch(BATCH).map(lambda r: tf.io.parse_example(r, SPEC))
    for ours, other in zip(feed, theirs, strict=True):
        assert np.array_equal(ours["ints"], other["ints"].to_tensor(-1).numpy())
        assert np.array_equal(ours["ints/mask"].sum(axis=1), other["ints"].row_lengths().numpy())


def test_sequence_examples(tmp_path: Path) -> None:
    path = tmp_path / "sequences.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in range(ROWS):
            steps = [
                tf.train.Feature(float_list=tf.train.FloatList(value=[number, step])) for step in range(number % 4)
            ]
            context = tf.train.Features(
                feature={"label": tf.train.Feature(int64_list=tf.train.Int64List(value=[number]))}
            )
            lists = tf.train.FeatureLists(feature_list={"frames": tf.train.FeatureList(feature=steps)})
            writer.write(tf.train.SequenceExample(context=context, feature_lists=lists).SerializeToString())
    feed = bushel.batches(bushel.open(path)["all"], batch_size=BATCH, order=Order(shuffle=True))
    seen = 0
    for batch in feed:
        frames = batch["frames"].to_list()
        for label, row in zip(batch["label"].tolist(), frames, strict=True):
            assert row == [[label, step] for step in range(label % 4)]
            seen += 1
    assert seen == ROWS
    assert bushel.open(path)["all"][6]["frames"].tolist() == [[6.0, 0.0], [6.0, 1.0]]
