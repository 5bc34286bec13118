"""TensorFlow and bushel on each other's files. The only module of the tests that imports TensorFlow."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import DATA, golden

import bushel
from bushel import BytesColumn, Feature, Ragged, Schema, Writer

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow")

ONE_FEATURE = ["int64.tfrecord", "float.tfrecord", "bytes.tfrecord", "empty.tfrecord"]


def values_of(feature: list[Any]) -> Any:
    kind, values = feature
    if kind == "bytes":
        return [bytes.fromhex(value) for value in values]
    if kind == "float":
        return np.array([float("nan") if v == "nan" else float.fromhex(v) for v in values], np.float32)
    return np.array(values, np.int64)


@pytest.mark.parametrize("name", ONE_FEATURE)
def test_bushel_writes_one_feature_examples_byte_for_byte_as_tensorflow_does(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with Writer(path) as writer:
        for record in golden()[name]["records"]:
            writer.write({bytes.fromhex(k).decode(): values_of(f) for k, f in record["value"]["features"].items()})
    assert path.read_bytes() == (DATA / name).read_bytes()


def test_bushel_writes_sequence_examples_byte_for_byte_as_tensorflow_does(tmp_path: Path) -> None:
    steps = [tf.train.Feature(int64_list=tf.train.Int64List(value=v)) for v in ([1, 2], [3])]
    lists = tf.train.FeatureLists(feature_list={"s": tf.train.FeatureList(feature=steps)})
    context = tf.train.Features(feature={"id": tf.train.Feature(int64_list=tf.train.Int64List(value=[7]))})
    expected = tf.train.SequenceExample(context=context, feature_lists=lists).SerializeToString()
    path = tmp_path / "a"
    schema = Schema.of(id=Feature(dtype="int64"), s=Feature(dtype="int64", shape=(None,), sequence=True))
    with Writer(path, schema=schema) as writer:
        writer.write({"id": 7, "s": [[1, 2], [3]]})
    assert list(bushel.payloads(path)) == [expected]


@pytest.mark.parametrize("compression", [None, "gzip", "zlib"])
def test_tensorflow_reads_what_bushel_writes(tmp_path: Path, compression: Any) -> None:
    path = tmp_path / "a.tfrecord"
    rng = np.random.default_rng(0)
    x, n = rng.random((200, 3), np.float32), rng.integers(-(2**62), 2**62, 200)
    text = [b"\xff%d\0" % i for i in range(200)]
    tokens = Ragged.of([list(range(i % 5)) for i in range(200)], np.int64)
    with Writer(path, compression=compression) as writer:
        writer.write_batch({"x": x, "n": n, "text": text, "tokens": tokens})
        writer.write({"x": x[0], "n": int(n[0]), "text": text[0], "tokens": [1]})
    records = list(tf.data.TFRecordDataset(str(path), (compression or "").upper()).as_numpy_iterator())
    parsed = tf.io.parse_example(
        records,
        {
            "x": tf.io.FixedLenFeature([3], tf.float32),
            "n": tf.io.FixedLenFeature([], tf.int64),
            "text": tf.io.FixedLenFeature([], tf.string),
            "tokens": tf.io.RaggedFeature(tf.int64),
        },
    )
    assert np.array_equal(parsed["x"].numpy(), [*x, x[0]])
    assert np.array_equal(parsed["n"].numpy(), [*n, n[0]])
    assert parsed["text"].numpy().tolist() == [*text, text[0]]
    assert parsed["tokens"].to_list() == [*tokens.to_list(), [1]]
    for record, sample in zip(records[:20], bushel.scan(path), strict=False):
        features = tf.train.Example.FromString(record).features.feature
        assert list(features["n"].int64_list.value) == [sample["n"]]
        assert list(features["x"].float_list.value) == sample["x"].tolist()


def test_tensorflow_reads_the_sequences_that_bushel_writes(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    schema = Schema.of(
        id=Feature(dtype="int64"),
        frames=Feature(dtype="bytes", sequence=True),
        tokens=Feature(dtype="int64", shape=(None,), sequence=True),
        scores=Feature(dtype="float32", shape=(2,), sequence=True),
    )
    samples = [
        {"id": 1, "frames": [b"a", b"\0"], "tokens": [[1, 2], []], "scores": [[0.5, 1.5]]},
        {"id": 2, "frames": [], "tokens": [[3]], "scores": []},
    ]
    with Writer(path, schema=schema) as writer:
        for sample in samples:
            writer.write(sample)
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    context, lists, _ = tf.io.parse_sequence_example(
        records,
        {"id": tf.io.FixedLenFeature([], tf.int64)},
        {
            "frames": tf.io.RaggedFeature(tf.string),
            "tokens": tf.io.RaggedFeature(tf.int64),
            "scores": tf.io.RaggedFeature(tf.float32),
        },
    )
    assert context["id"].numpy().tolist() == [1, 2]
    assert lists["frames"].to_list() == [[[b"a"], [b"\0"]], []]
    assert lists["tokens"].to_list() == [[[1, 2], []], [[3]]]
    assert lists["scores"].to_list() == [[[0.5, 1.5]], []]


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_bushel_reads_what_tensorflow_writes(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "a"
    rng = np.random.default_rng(1)
    x, n = rng.random((300, 2), np.float32), rng.integers(-5, 5, 300)
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for i in range(300):
            features = {
                "x": tf.train.Feature(float_list=tf.train.FloatList(value=x[i])),
                "n": tf.train.Feature(int64_list=tf.train.Int64List(value=[n[i]])),
                "r": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"%d" % i] * (i % 3))),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    columns = bushel.read(path)
    assert np.array_equal(columns["x"], x)
    assert np.array_equal(columns["n"], n)
    assert columns["r"].to_list() == [[b"%d" % i] * (i % 3) for i in range(300)]


@pytest.mark.parametrize("name", [name for name, file in golden().items() if file["message"] == "example"])
def test_golden_examples_hold_their_values(name: str) -> None:
    samples = list(bushel.scan(DATA / name))
    for sample, record in zip(samples, golden()[name]["records"], strict=True):
        expected = {k: f for k, f in record["value"]["features"].items() if f[0] is not None}
        assert {key.encode().hex() for key in sample} == set(expected)
        for key, feature in expected.items():
            found, wanted = sample[bytes.fromhex(key).decode()], values_of(feature)
            if isinstance(wanted, list):
                assert (found if isinstance(found, list) else [found]) == wanted
            else:
                assert np.asarray(found).tobytes() == wanted.tobytes() or np.array_equal(found, wanted, equal_nan=True)


def test_the_description_that_bushel_prints_parses_the_file(tmp_path: Path) -> None:
    from bushel.records.survey import tf_description

    path = tmp_path / "a"
    with Writer(path) as writer:
        writer.write({"x": [1.0, 2.0], "n": 1, "o": [1, 2]})
        writer.write({"x": [3.0, 4.0], "n": 2, "o": []})
    names: dict[str, Any] = {"tf": tf}
    exec(tf_description(bushel.infer_schema(path)), names)
    parsed = tf.io.parse_example(list(bushel.payloads(path)), names["feature_description"])
    assert parsed["x"].numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert parsed["o"].to_list() == [[1, 2], []]


def test_bytes_columns_go_to_tensorflow_as_they_are() -> None:
    column = BytesColumn.of([b"a\0", b"\xff", b""])
    assert tf.constant(column.to_numpy()).numpy().tolist() == [b"a\0", b"\xff", b""]
