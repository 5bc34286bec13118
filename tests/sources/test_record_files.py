"""Samples from TFRecord files."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from gather import keys_of, listed, read_all

import bushel
from bushel.data.categories import Label
from bushel.errors import FileProblem, MissingName
from bushel.records.manifest import Manifest, ShardEntry, SplitEntry, write_manifest
from bushel.sources import records


def write(
    path: Path, count: int = 5, first: int = 0, compression: "bushel.records.files.Compression | None" = None
) -> Path:
    with bushel.Writer(path, compression=compression) as writer:
        for i in range(first, first + count):
            writer.write({"x": [float(i), 0.5], "label": i % 3, "name": f"n{i}", "tags": [1] * (i % 3 + 1)})
    return path


def test_plain_files_are_read_at_random(tmp_path: Path) -> None:
    source = records([write(tmp_path / "a.tfrecord"), write(tmp_path / "b.tfrecord", 3, 5)])
    assert source.reads == "random"
    assert source.partitions() == 2
    assert keys_of(source)[4:6] == ["a.tfrecord:4", "b.tfrecord:0"]
    assert listed(source, "label") == [0, 1, 2, 0, 1, 2, 0, 1]
    (block,) = source.read(1, np.array([2, 0]))
    assert block.columns["name"].to_list() == [b"n7", b"n5"]
    assert block.columns["x"].tolist() == [[7.0, 0.5], [5.0, 0.5]]
    assert block.columns["tags"].to_list() == [[1, 1], [1, 1, 1]]


@pytest.mark.parametrize("compression", ["gzip", "zlib"])
def test_compressed_files_are_read_in_sequence(tmp_path: Path, compression: "bushel.records.files.Compression") -> None:
    source = records(write(tmp_path / "a.tfrecord", compression=compression))
    assert source.reads == "sequence"
    assert read_all(source)[0]["name"] == [b"n0", b"n1", b"n2", b"n3", b"n4"]
    with pytest.raises(ValueError, match="rows must be None"):
        next(source.read(0, np.array([1])))


def test_columns_are_chosen_and_keys_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord")
    source = records(path, columns=["x"], key="name")
    assert list(source.schema()) == ["x"]
    assert keys_of(source) == ["n0", "n1", "n2", "n3", "n4"]
    assert set(read_all(source)[0]) == {"x"}
    with pytest.raises(MissingName, match="no feature 'labl'; did you mean 'label'"):
        records(path, columns=["labl"])


def test_a_damaged_record_is_refused_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord")
    bushel.write_index(path)
    data = bytearray(path.read_bytes())
    offset = int(bushel.load_index(path).offsets[2])  # type: ignore[union-attr]
    data[offset + 20] ^= 0xFF
    path.write_bytes(data)
    columns, refused = read_all(records(path, columns=["name", "label", "x", "tags"]))
    assert columns["name"] == [b"n0", b"n1", b"n3", b"n4"]
    assert refused == [(2, "read", "checksum of the data does not match")]


def test_records_behind_a_damaged_length_are_reached_and_the_loss_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord")
    bushel.write_index(path)
    offset = int(bushel.load_index(path).offsets[1])  # type: ignore[union-attr]
    data = bytearray(path.read_bytes())
    data[offset] ^= 0xFF
    path.write_bytes(data)
    (tmp_path / "_index" / "a.tfrecord.idx").unlink()
    source = records(path)
    columns, refused = read_all(source)
    assert columns["name"] == [b"n0", b"n2", b"n3", b"n4"]
    assert refused == [(1, "read", "checksum of the length does not match")]


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
@pytest.mark.parametrize("key", [None, "name"])
def test_what_a_truncated_file_lost_is_refused_by_a_build(tmp_path: Path, name: str, key: str | None) -> None:
    path = write(tmp_path / name)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - 10 if name == "a.tfrecord" else len(data) // 2 + 20])
    built = bushel.build(records(path, key=key), tmp_path / "out")
    assert built.manifest.refused == 1
    (line,) = (tmp_path / "out" / "_quarantine.jsonl").read_text().splitlines()
    assert "ends" in json.loads(line)["reason"]


def test_a_feature_of_another_kind_in_another_file_is_refused(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "a.tfrecord") as writer:
        writer.write_batch({"x": [1, 2, 3]})
    with bushel.Writer(tmp_path / "b.tfrecord") as writer:
        writer.write_batch({"x": [1.5]})
    columns, refused = read_all(records([tmp_path / "a.tfrecord", tmp_path / "b.tfrecord"]))
    assert columns == {"x": [1, 2, 3]}
    assert refused == [(0, "read", "x: the feature holds another kind of values than the records before it")]


def test_names_of_files_tell_the_split(tmp_path: Path) -> None:
    write(tmp_path / "train-00000-of-00001.tfrecord")
    write(tmp_path / "validation-00000-of-00001.tfrecord", 2)
    source = records(tmp_path)
    assert source.split == "split"
    assert listed(source, "split") == [b"train"] * 5 + [b"val"] * 2
    assert (
        records(write(tmp_path / "other" / "x.tfrecord") if (tmp_path / "other").mkdir() is None else "").split is None
    )


def test_a_dataset_of_bushels_keeps_names_of_classes_and_splits(tmp_path: Path) -> None:
    path = write(tmp_path / "hold-00000-of-00001.tfrecord")
    schema = bushel.infer_schema(path)
    shard = ShardEntry(path=path.name, records=5, bytes=path.stat().st_size, sha256="", digest="")
    label = Label(feature="label", task="classification", names=["ant", "bee", "cow"])
    empty = ShardEntry(path="hold-g001-00000-of-00001.tfrecord", records=0, bytes=0, sha256="", digest="")
    (tmp_path / empty.path).touch()
    (tmp_path / "recipe.toml").write_text("seed = 0")
    write_manifest(tmp_path, Manifest(splits={"hold": SplitEntry(shards=[shard, empty])}, schema=schema, label=label))
    source = records(tmp_path)
    assert source.schema()["label"].describe() == "str"
    assert listed(source, "label") == [b"ant", b"bee", b"cow", b"ant", b"bee"]
    assert read_all(source)[0]["label"] == [b"ant", b"bee", b"cow", b"ant", b"bee"]
    assert listed(source, "split") == [b"hold"] * 5


def test_examples_that_lack_a_feature(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "a.tfrecord") as writer:
        writer.write({"x": 1, "y": 2})
    with bushel.Writer(tmp_path / "b.tfrecord") as writer:
        writer.write({"x": 3})
    source = records([tmp_path / "a.tfrecord", tmp_path / "b.tfrecord"])
    assert source.schema()["y"].describe() == "int64, optional"
    assert read_all(source)[0] == {"x": [1, 3], "y": [2, None]}


def test_what_is_no_tfrecord_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(FileProblem, match="is not a TFRecord file: it is a zip archive"):
        records(tmp_path / "a.tfrecord", columns=["x"])


def test_pickles_with_its_schema(tmp_path: Path) -> None:
    source = records(write(tmp_path / "a.tfrecord"))
    data = pickle.dumps(source)
    assert len(data) < 4000
    assert read_all(pickle.loads(data)) == read_all(source)
    assert source.locate(0, 3) == f"{tmp_path / 'a.tfrecord'}: record 3"


def test_records_in_folders_named_like_splits_are_those_splits(tmp_path: Path) -> None:
    for split, rows in (("train", 3), ("valid", 2)):
        (tmp_path / "data" / split).mkdir(parents=True)
        write(tmp_path / "data" / split / "cats.tfrecord", rows)
    data = bushel.open(tmp_path / "data")
    assert {name: len(data[name]) for name in data.splits} == {"train": 3, "val": 2}
    built = bushel.build(tmp_path / "data", tmp_path / "out")
    assert {name: sum(shard.records for shard in split.shards) for name, split in built.manifest.splits.items()} == {
        "train": 3,
        "val": 2,
    }


def test_a_folder_of_whole_datasets_is_not_one_of_them(tmp_path: Path) -> None:
    for name in ("first", "second"):
        bushel.build([{"x": 1}, {"x": 2}], tmp_path / "all" / name)
    with pytest.raises(FileProblem, match="only folders: first, second"):
        bushel.open(tmp_path / "all")
