"""Records parsed by TensorFlow's own ops, made from the schema."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel import Feature, MissingName, Ragged, Schema, SchemaMismatch
from bushel.tensorflow import parse_fn, parse_spec

tf = pytest.importorskip("tensorflow")

RAW_DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
RAW_DTYPES += ["float16", "float32", "float64", "complex64", "complex128"]


def write(path: Path, schema: Schema, columns: dict[str, Any]) -> Any:
    with bushel.Writer(path, schema=schema) as writer:
        writer.write_batch(columns)
    return next(iter(tf.data.TFRecordDataset(str(path)).batch(1000)))


def test_lists_become_tensors_of_the_schemas_shapes(tmp_path: Path) -> None:
    schema = Schema.of(
        x=Feature(dtype="float32", shape=(2, 3)), label=Feature(dtype="int64"), name=Feature(dtype="str")
    )
    x = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    records = write(tmp_path / "a.tfrecord", schema, {"x": x, "label": np.arange(4), "name": list("abcd")})
    parsed = parse_fn(schema)(records)
    np.testing.assert_array_equal(parsed["x"], x)
    np.testing.assert_array_equal(parsed["label"], np.arange(4))
    assert parsed["name"].numpy().tolist() == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize("dtype", RAW_DTYPES)
def test_raw_tensors_are_decoded_and_shaped(tmp_path: Path, dtype: str) -> None:
    schema = Schema.of(x=Feature(dtype=dtype, shape=(2, 3), encoding="raw"))
    generator = np.random.default_rng(0)
    x = np.frombuffer(generator.bytes(5 * 6 * 16), np.uint8)[: 30 * np.dtype(dtype).itemsize]
    x = (x % 2 if dtype == "bool" else x).view(dtype).reshape(5, 2, 3)
    parsed = parse_fn(schema)(write(tmp_path / "a.tfrecord", schema, {"x": x}))["x"]
    assert parsed.dtype.name == dtype
    assert parsed.numpy().tobytes() == x.tobytes()


def test_shapes_are_known_before_the_first_record() -> None:
    schema = Schema.of(
        image=Feature(dtype="uint8", shape=(8, 8, 3), encoding="raw"),
        boxes=Feature(dtype="float32", shape=(None, 4)),
        wave=Feature(dtype="int16", shape=(None, 2), encoding="raw"),
    )
    records = tf.data.Dataset.from_tensors(tf.constant([b"", b""]))
    assert records.map(parse_fn(schema)).element_spec == {
        "image": tf.TensorSpec([2, 8, 8, 3], tf.uint8),
        "boxes": tf.RaggedTensorSpec([2, None, 4], tf.float32, ragged_rank=1),
        "wave": tf.RaggedTensorSpec([2, None, 2], tf.int16, ragged_rank=1),
    }


def test_what_varies_is_ragged_with_its_inner_sizes(tmp_path: Path) -> None:
    schema = Schema.of(
        boxes=Feature(dtype="float32", shape=(None, 2)),
        wave=Feature(dtype="int16", shape=(None, 2), encoding="raw"),
        words=Feature(dtype="str", shape=(None,)),
    )
    boxes = Ragged(np.arange(8, dtype=np.float32).reshape(4, 2), np.array([0, 3, 3, 4]))
    wave = Ragged(np.arange(6, dtype=np.int16).reshape(3, 2), np.array([0, 1, 1, 3]))
    words = Ragged.of([["a", "b"], [], ["c"]])
    parsed = parse_fn(schema)(write(tmp_path / "a.tfrecord", schema, {"boxes": boxes, "wave": wave, "words": words}))
    assert parsed["boxes"].to_list() == boxes.to_list()
    assert parsed["wave"].to_list() == wave.to_list()
    assert parsed["words"].to_list() == words.to_list()


def test_one_record_is_parsed_like_a_batch_of_one(tmp_path: Path) -> None:
    schema = Schema.of(x=Feature(dtype="float64", shape=(3,)), tokens=Feature(dtype="int64", shape=(None,)))
    x, tokens = np.arange(6.0).reshape(2, 3), Ragged.of([[1, 2, 3], [4]], np.int64)
    records = write(tmp_path / "a.tfrecord", schema, {"x": x, "tokens": tokens})
    parsed = parse_fn(schema)(records[1])
    assert parsed["x"].numpy().tolist() == [3.0, 4.0, 5.0]
    assert parsed["tokens"].numpy().tolist() == [4]


def test_a_sequence_example_has_one_row_a_step(tmp_path: Path) -> None:
    schema = Schema(
        record="sequence_example",
        features={
            "label": Feature(dtype="int64"),
            "frame": Feature(dtype="uint8", shape=(2, 2), encoding="raw", sequence=True),
            "pose": Feature(dtype="float32", shape=(3,), sequence=True),
            "time": Feature(dtype="int64", sequence=True),
            "words": Feature(dtype="str", shape=(None,), sequence=True),
        },
    )
    samples = [
        {
            "label": number,
            "frame": [np.full((2, 2), step, np.uint8) for step in range(steps)],
            "pose": [np.full(3, step, np.float32) for step in range(steps)],
            "time": list(range(steps)),
            "words": [["a"] * step for step in range(steps)],
        }
        for number, steps in enumerate((2, 3))
    ]
    with bushel.Writer(tmp_path / "a.tfrecord", schema=schema) as writer:
        for sample in samples:
            writer.write(sample)
    dataset = tf.data.TFRecordDataset(str(tmp_path / "a.tfrecord")).batch(2).map(parse_fn(schema))
    parsed = next(iter(dataset))
    assert parsed["time"].to_list() == [[0, 1], [0, 1, 2]]
    assert parsed["words"].to_list() == [[[], [b"a"]], [[], [b"a"], [b"a", b"a"]]]
    assert parsed["pose"].shape.as_list() == [2, None, 3]
    assert parsed["frame"][1].numpy().tolist() == [[[step] * 2] * 2 for step in range(3)]


def test_sparse_features_are_sparse_tensors(tmp_path: Path) -> None:
    stored = {"tfidf/indices": Ragged.of([[7, 2], [0]], np.int64), "tfidf/values": Ragged.of([[0.5, 1.0], [2.0]])}
    with bushel.Writer(tmp_path / "a.tfrecord") as writer:
        writer.write_batch(stored)
    schema = Schema.of(tfidf=Feature(dtype="float32", shape=(10,), encoding="sparse"))
    records = next(iter(tf.data.TFRecordDataset(str(tmp_path / "a.tfrecord")).batch(2)))
    dense = tf.sparse.to_dense(parse_fn(schema)(records)["tfidf"]).numpy()
    assert dense.shape == (2, 10)
    assert {(r, c): v for (r, c), v in np.ndenumerate(dense) if v} == {(0, 2): 1.0, (0, 7): 0.5, (1, 0): 2.0}


def test_a_raw_tensor_of_another_size_is_refused_by_name(tmp_path: Path) -> None:
    stored = Schema.of(x=Feature(dtype="uint8", shape=(4,), encoding="raw"))
    records = write(tmp_path / "a.tfrecord", stored, {"x": np.zeros((2, 4), np.uint8)})
    believed = Schema.of(x=Feature(dtype="uint8", shape=(2, 3), encoding="raw"))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"x: the bytes of a record are not uint8\[2,3\] \(raw\)"):
        parse_fn(believed)(records)


SCHEMA = Schema.of(
    image=Feature(dtype="bytes", encoding="jpeg"),
    label=Feature(dtype="int64"),
    x=Feature(dtype="float32", shape=(3,)),
    tokens=Feature(dtype="int64", shape=(None,)),
)


def test_the_spec_is_what_parse_example_takes() -> None:
    assert parse_spec(SCHEMA) == {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
        "x": tf.io.FixedLenFeature((3,), tf.float32),
        "tokens": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64),
    }


def test_a_misspelt_feature_is_refused_with_the_nearest() -> None:
    for make in (parse_spec, parse_fn):
        with pytest.raises(MissingName) as caught:
            make(SCHEMA, ["imge"])
        assert str(caught.value).splitlines()[0] == "schema: no feature 'imge'; did you mean 'image'?"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"label": "float32"}, "expected float32, got int64 - at label"),
        ({"x": np.float64}, "expected float64, got float32[3] - at x"),
        ({"label": tf.io.FixedLenFeature([], tf.float32)}, "expected float32, got int64 - at label"),
        ({"x": tf.io.FixedLenFeature([4], tf.float32)}, "expected float32[4], got float32[3] - at x"),
        ({"tokens": tf.io.FixedLenFeature([5], tf.int64)}, "expected int64[5], got int64[?] - at tokens"),
    ],
)
def test_a_mistyped_feature_is_refused_when_the_pipeline_is_made(columns: dict[str, Any], message: str) -> None:
    for make in (parse_spec, parse_fn):
        with pytest.raises(SchemaMismatch) as caught:
            make(SCHEMA, columns)
        assert str(caught.value) == message


def test_ones_own_description_is_kept_where_it_is_right() -> None:
    own = {"x": tf.io.FixedLenFeature([3], tf.float32), "tokens": tf.io.VarLenFeature(tf.int64)}
    assert parse_spec(SCHEMA, own) == own
