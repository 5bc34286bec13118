"""`schema.pbtxt` of TFX and TensorFlow Data Validation."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

import bushel
from bushel.data.schema import BYTES_KIND, FLOAT_KIND, INT_KIND
from bushel.data.tf_descriptions import Declared, read_pbtxt, to_pbtxt


def parsed(text: str) -> schema_pb2.Schema:
    return text_format.Parse(text, schema_pb2.Schema())


def written(schema: schema_pb2.Schema, path: Path) -> dict[str, Declared]:
    path.write_text(text_format.MessageToString(schema))
    return {feature.name: feature for feature in read_pbtxt(path)}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = {"x": np.ones((6, 3), np.float32), "n": np.arange(6), "label": ["cat", "dog"] * 3}
    bushel.build({**rows, "words": [[1, 2][: i % 3] for i in range(6)]}, tmp_path / "data", split="100")
    return tmp_path / "data"


def test_what_schema_prints_is_read_by_tensorflow_metadata(data: Path) -> None:
    command = [sys.executable, "-m", "bushel", "schema", str(data), "--pbtxt"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    features = {feature.name: feature for feature in parsed(done.stdout).feature}
    assert {name: feature.type for name, feature in features.items()} == {
        "x": schema_pb2.FLOAT,
        "n": schema_pb2.INT,
        "label": schema_pb2.INT,
        "words": schema_pb2.INT,
    }
    assert [dim.size for dim in features["x"].shape.dim] == [3]
    assert features["x"].presence.min_fraction == 1
    assert (features["label"].int_domain.min, features["label"].int_domain.max) == (0, 1)
    assert features["words"].value_count.min == 0
    assert not features["words"].HasField("shape")


def test_images_sequences_sparse_features_and_odd_names_are_written() -> None:
    schema = bushel.Schema(
        features={
            'a "b"\\\n': bushel.Feature(dtype="bytes", encoding="jpeg"),
            "bag": bushel.Feature(dtype="float32", shape=(100,), encoding="sparse"),
            "steps": bushel.Feature(dtype="int64", sequence=True),
        },
        record="sequence_example",
    )
    found = parsed(to_pbtxt(schema))
    assert found.feature[0].name == 'a "b"\\\n'
    assert found.feature[0].HasField("image_domain")
    assert (found.sparse_feature[0].name, found.sparse_feature[0].dense_shape.dim[0].size) == ("bag", 100)
    nested = found.feature[-1].struct_domain.feature
    assert [feature.name for feature in nested] == ["steps"]


def test_what_is_written_is_read_again(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "schema.pbtxt"
    path.write_text(to_pbtxt(bushel.info([data]).schema, {"label": 2}))
    found = {feature.name: feature for feature in read_pbtxt(path)}
    assert found["x"] == Declared("x", FLOAT_KIND, 1.0, 1, least=3, most=3)
    assert (found["label"].low, found["label"].high) == (0, 1)
    assert (found["words"].least, found["words"].most) == (0, None)


def test_what_tensorflow_metadata_writes_is_read(tmp_path: Path) -> None:
    schema = schema_pb2.Schema()
    schema.string_domain.add(name="animals", value=["cat", "d\"o'g", "häschen\t"])
    one = schema.feature.add(name="kind", type=schema_pb2.BYTES, domain="animals")
    one.presence.min_fraction, one.presence.min_count = 0.5, 3
    two = schema.feature.add(name="weight", type=schema_pb2.FLOAT, lifecycle_stage=schema_pb2.DEPRECATED)
    two.float_domain.min, two.float_domain.max, two.float_domain.disallow_nan = -1.5, 1e30, True
    two.value_count.min, two.value_count.max = 1, 4
    three = schema.feature.add(name="matrix", type=schema_pb2.INT)
    three.shape.dim.add(size=2)
    three.shape.dim.add(size=5)
    steps = schema.feature.add(name="##SEQUENCE##", type=schema_pb2.STRUCT)
    steps.struct_domain.feature.add(name="word", type=schema_pb2.BYTES)
    found = written(schema, tmp_path / "schema.pbtxt")
    assert found["kind"] == Declared("kind", BYTES_KIND, 0.5, 3, texts=frozenset(["cat", "d\"o'g", "häschen\t"]))
    assert found["weight"].low == -1.5
    assert found["weight"].high == pytest.approx(1e30)
    assert (found["weight"].allows_nan, found["weight"].allows_infinity) == (False, True)
    assert (found["weight"].least, found["weight"].most, found["weight"].is_expected) == (1, 4, False)
    assert (found["matrix"].kind, found["matrix"].least, found["matrix"].most) == (INT_KIND, 10, 10)
    assert found["word"].sequence


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('feature {\n name: "x"\n', "line 2: '}' is missing at the end"),
        ('feature { name "x" }', "line 1: expected a value"),
        ("feature { : }", "line 1: expected the name of a field, found ':'"),
        ("a {" * 100, "nested too deeply"),
        ('feature { name: "x" value_count: "no" }', "is not a schema of TFX"),
        ('feature { shape { dim { size: "big" } } }', "is not a schema of TFX"),
        ('feature { name: "\n" }', "line 1: expected a value"),
        ("x: [1, ", "missing at the end"),
    ],
)
def test_other_text_is_one_clear_line(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "schema.pbtxt"
    path.write_text(text)
    with pytest.raises(bushel.BushelError, match=why.replace("'", ".").replace("}", ".")) as caught:
        read_pbtxt(path)
    assert str(path) in str(caught.value)


def test_a_binary_schema_is_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / "schema.pb"
    path.write_bytes(b"\x0a\xff\xfe")
    with pytest.raises(bushel.BushelError, match="is not text"):
        read_pbtxt(path)
