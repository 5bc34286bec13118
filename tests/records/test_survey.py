import gzip
import math
from pathlib import Path

import pytest
from PIL import Image
from support import DATA, example, flip, golden, sequence_example, write_records

import bushel
from bushel import Feature
from bushel.errors import Fault
from bushel.records.survey import tf_description

PNG, JPEG = b"\x89PNG\r\n\x1a\n" + bytes(20), b"\xff\xd8\xff\xe0" + bytes(20)


def schema_of(folder: Path, records: list[bytes]) -> bushel.Schema:
    return bushel.infer_schema(write_records(folder / "a", records))


def test_types_and_shapes_follow_from_all_records(tmp_path: Path) -> None:
    records = [
        example({"one": [i], "two": [0.5, 1.5], "many": [i] * i, "text": [b"caf\xc3\xa9"], "raw": [b"\xff\x00"]})
        for i in range(3)
    ]
    schema = schema_of(tmp_path, records)
    assert schema.features == {
        "many": Feature(dtype="int64", shape=(None,)),
        "one": Feature(dtype="int64"),
        "raw": Feature(dtype="bytes"),
        "text": Feature(dtype="str"),
        "two": Feature(dtype="float32", shape=(2,)),
    }
    assert schema.record == "example"


def test_a_feature_that_some_records_lack_is_optional_and_its_share_is_told(tmp_path: Path) -> None:
    schema = schema_of(tmp_path, [example({"x": [1]}), example({}), example({"x": [2]}), b""])
    assert not schema["x"].required
    assert schema["x"].shape == ()
    assert schema.statistics["x"].presence == 0.5


def test_images_are_told_by_their_bytes(tmp_path: Path) -> None:
    schema = schema_of(
        tmp_path, [example({"p": [PNG], "j": [JPEG], "both": [p], "some": [q]}) for p, q in ((PNG, JPEG), (JPEG, b"x"))]
    )
    assert (schema["p"].encoding, schema["j"].encoding) == ("png", "jpeg")
    assert (schema["both"].encoding, schema["some"].encoding) == ("image", "list")


def test_images_of_a_dataset_have_the_format_that_all_of_them_have(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(4):
        Image.new("L", (4, 4), number).save(photos / f"{number}.png")
    bushel.build(photos, tmp_path / "data", run=bushel.Run(workers=1))
    assert bushel.open(tmp_path / "data").schema["image"].encoding == "image"
    assert bushel.infer_schema(tmp_path / "data")["image"].encoding == "png"


def test_statistics_hold_ranges_lengths_and_what_is_not_a_number(tmp_path: Path) -> None:
    schema = schema_of(
        tmp_path, [example({"f": [1.0, math.nan, math.inf], "i": [-5, 7]}), example({"f": [-2.5], "i": [2]})]
    )
    f, i = schema.statistics["f"], schema.statistics["i"]
    assert (f.min, f.max, f.nans, f.infinities) == (-2.5, 1.0, 1, 1)
    assert (f.min_length, f.max_length, f.mean_length) == (1, 3, 2.0)
    assert (i.min, i.max, i.kinds) == (-5, 7, {"int64": 2})


def test_feature_lists_make_a_sequence_example(tmp_path: Path) -> None:
    records = [sequence_example({"id": [1]}, {"s": [[1, 2], [3, 4]]}), sequence_example({"id": [1]}, {"s": []})]
    schema = schema_of(tmp_path, records)
    assert schema.record == "sequence_example"
    assert schema["s"] == Feature(dtype="int64", shape=(2,), sequence=True)
    assert (schema.statistics["s"].min_steps, schema.statistics["s"].max_steps) == (0, 2)


def test_mixed_kinds_are_all_counted(tmp_path: Path) -> None:
    schema = schema_of(tmp_path, [example({"x": [1]}), example({"x": [1]}), example({"x": [1.5]})])
    assert schema["x"].dtype == "int64"
    assert schema.statistics["x"].kinds == {"float32": 1, "int64": 2}


def test_records_that_are_no_examples_are_bytes_and_not_damage(tmp_path: Path) -> None:
    found = bushel.info(write_records(tmp_path / "a", [b"no protobuf", b"\xff\xff", b"{}"]))
    assert found.schema.record == "bytes"
    assert (found.records, found.faults) == (3, [])


def test_damage_is_counted_with_its_place(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a", [example({"x": [i]}) for i in range(5)])
    flip(path, 30 + 15)
    flip(path, 90 + 2)
    found = bushel.info(path)
    assert found.records == 3
    assert sorted((fault.record, fault.offset, fault.length, fault.fault) for fault in found.faults) == [
        (1, 30, 30, Fault.DATA_CRC),
        (3, 90, 30, Fault.LENGTH_CRC),
    ]


def test_several_files_add_up(tmp_path: Path) -> None:
    first = write_records(tmp_path / "a", [example({"x": [1]})] * 2)
    second = tmp_path / "b"
    second.write_bytes(gzip.compress(first.read_bytes()))
    found = bushel.info([first, second])
    assert found.records == 4
    assert [file.compression for file in found.files] == [None, "gzip"]
    assert found.bytes == first.stat().st_size + second.stat().st_size


@pytest.mark.parametrize("name", [name for name, file in golden().items() if file["size"]])
def test_golden_files_are_intact_and_all_their_records_counted(name: str) -> None:
    found = bushel.info(DATA / name)
    assert found.records == len(golden()[name]["records"])
    assert [fault for fault in found.faults if fault.fault is not Fault.MALFORMED] == []


def test_the_description_for_tensorflow_is_python_that_can_be_pasted(tmp_path: Path) -> None:
    records = [example({"d": [1.0, 2.0], "o": [1] * (i % 2), "s": [b"x"]}) for i in range(3)]
    text = tf_description(schema_of(tmp_path, records))
    assert text == (
        "feature_description = {\n"
        "    'd': tf.io.FixedLenFeature([2], tf.float32),\n"
        "    'o': tf.io.RaggedFeature(tf.int64),\n"
        "    's': tf.io.FixedLenFeature([], tf.string),\n"
        "}\n\n"
        "# tf.io.parse_example(records, feature_description)\n"
    )
