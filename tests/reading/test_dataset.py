"""Opening a dataset and reading its records by number."""

import sys
from pathlib import Path

import numpy as np
import pytest

import bushel
from bushel import Feature, Schema
from bushel.data.categories import Label
from bushel.records.index import StaleIndex, cached_index_path
from bushel.records.manifest import Manifest, ShardEntry, SplitEntry, write_manifest


def test_a_record_is_read_by_its_number_over_all_shards(numbered: Path) -> None:
    train = bushel.open(numbered)["train"]
    assert len(train) == 103
    assert train[100]["number"] == 100
    assert train[-1]["text"] == "record 102"
    assert train[7]["x"].tolist() == [7, 8, 9, 10, 11, 12, 13, 14]
    assert train[7]["tokens"].tolist() == [0]


def test_several_records_come_as_columns_in_the_order_asked_for(numbered: Path) -> None:
    train = bushel.open(numbered)["train"]
    assert train[[5, 90, 3]]["number"].tolist() == [5, 90, 3]
    assert train[98:]["number"].tolist() == [98, 99, 100, 101, 102]
    assert train[::-50]["number"].tolist() == [102, 52, 2]
    assert train[np.arange(103) % 50 == 1]["number"].tolist() == [1, 51, 101]
    assert train[[]]["number"].tolist() == []


def test_a_sequence_of_one_step_is_a_list_all_the_same(tmp_path: Path) -> None:
    features = {"time": Feature(dtype="int64", sequence=True), "word": Feature(dtype="str", sequence=True)}
    schema = Schema(record="sequence_example", features=features)
    with bushel.Writer(tmp_path / "a.tfrecord", schema=schema) as writer:
        writer.write({"time": [7], "word": ["a"]})
    sample = bushel.open(tmp_path / "a.tfrecord")["all"][0]
    assert sample["time"].tolist() == [7]
    assert sample["word"] == ["a"]


def test_a_number_beyond_the_end_says_how_many_there_are(numbered: Path) -> None:
    train = bushel.open(numbered)["train"]
    with pytest.raises(IndexError, match="record must be below 103, got 103"):
        train[103]
    with pytest.raises(IndexError, match="record must be below 103, got -104"):
        train[[-104]]


def test_records_are_chosen_by_a_value(numbered: Path) -> None:
    train = bushel.open(numbered)["train"]
    assert train.where("label", 3)[:4]["number"].tolist() == [3, 8, 13, 18]
    assert train.where("label", [0, 1])[-1]["number"] == 101
    assert train.where("text", "record 44")[0]["number"] == 44
    assert len(train.where("label", 9)) == 0


def test_a_label_that_the_index_carries_is_not_read_from_the_records(numbered: Path) -> None:
    paths = sorted(numbered.glob("*.tfrecord"))
    bushel.write_index(paths, label="label", lengths=["tokens"])
    train = bushel.open(numbered)["train"]
    assert len(train.shards) == 103
    for path in paths:
        path.unlink()
    assert train.values("label").tolist() == [number % 5 for number in range(103)]
    assert train.lengths("tokens").tolist() == [number % 7 + 1 for number in range(103)]


@pytest.mark.parametrize(
    ("names", "splits"),
    [
        (["train-00000-of-00002", "train-00001-of-00002", "val-00000-of-00001"], ["train", "val"]),
        (["mnist-train.tfrecord-00000-of-00001", "mnist-test.tfrecord-00000-of-00001"], ["train", "test"]),
        (["train.tfrecord", "validation.tfrecord"], ["train", "val"]),
        (["train-g001-00000-of-00002.tfrecord"], ["train"]),
        (["trainer.tfrecord", "contest.tfrecord"], ["all"]),
        (["train.tfrecord", "rest.tfrecord"], ["all"]),
    ],
)
def test_files_that_name_their_split_have_it(tmp_path: Path, names: list[str], splits: list[str]) -> None:
    for name in names:
        with bushel.Writer(tmp_path / name) as writer:
            writer.write({"x": 1})
    assert sorted(bushel.open([tmp_path / name for name in names])) == sorted(splits)


def test_a_missing_split_is_named_with_those_there_are(numbered: Path) -> None:
    with pytest.raises(bushel.MissingName) as caught:
        bushel.open(numbered)["trian"]
    assert str(caught.value) == f"{numbered}: no split 'trian'; did you mean 'train'?\n  There are: train"


def test_a_manifest_says_which_files_are_which(numbered: Path) -> None:
    shards = [
        ShardEntry(
            path=path.name,
            records=sum(1 for _ in bushel.payloads(path)),
            bytes=path.stat().st_size,
            sha256="",
            digest="",
        )
        for path in sorted(numbered.glob("*.tfrecord"))
    ]
    schema = bushel.infer_schema(numbered)
    splits = {"train": SplitEntry(shards=shards[:3]), "holdout": SplitEntry(shards=shards[3:])}
    write_manifest(
        numbered, Manifest(splits=splits, schema=schema, label=Label(feature="label", task="classification"))
    )
    data = bushel.open(numbered)
    assert list(data) == ["train", "holdout"]
    assert list(bushel.open([numbered])) == ["train", "holdout"]
    assert data["holdout"][0]["number"] == 78
    assert data.schema == schema


def test_an_index_is_made_and_kept_in_the_cache_and_nothing_is_written_beside_the_data(numbered: Path) -> None:
    path = numbered / "train-00000-of-00004.tfrecord"
    before = sorted(numbered.rglob("*"))
    assert not cached_index_path(path).exists()
    assert len(bushel.open(numbered)["train"]) == 103
    assert cached_index_path(path).exists()
    assert sorted(numbered.rglob("*")) == before


def test_an_index_beside_the_data_that_is_older_than_the_cached_one_is_passed_over(numbered: Path) -> None:
    path = numbered / "train-00000-of-00004.tfrecord"
    bushel.write_index(path)
    with bushel.Writer(path) as writer:
        writer.write({"number": 7, "x": [0.0] * 8, "tokens": [1], "text": "new", "label": 0})
    with pytest.raises(StaleIndex):
        bushel.load_index(path)
    assert len(bushel.open(numbered)["train"]) == 103 - 26 + 1
    assert len(bushel.load_index(path)) == 1


def test_a_stale_index_is_noticed_and_made_anew(numbered: Path) -> None:
    assert len(bushel.open(numbered)["train"]) == 103
    with bushel.Writer(numbered / "train-00000-of-00004.tfrecord") as writer:
        writer.write({"number": 7, "x": [0.0] * 8, "tokens": [1], "text": "new", "label": 0})
    train = bushel.open(numbered)["train"]
    assert len(train) == 103 - 26 + 1
    assert train[0]["number"] == 7


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_opening_keeps_no_file_open(numbered: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    train = bushel.open(numbered)["train"]
    assert train[0]["number"] == 0
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_what_later_records_hold_otherwise_is_said_with_its_place(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "a.tfrecord") as writer:
        for number in range(1100):
            writer.write({"x": [1.0, 2.0] if number != 1050 else [1.0]})
    data = bushel.open(tmp_path / "a.tfrecord")["all"]
    with pytest.raises(bushel.SchemaMismatch) as caught:
        data[1040:1060]
    assert str(caught.value).splitlines()[0] == (
        f"the record does not hold float32[2] - at {tmp_path}/a.tfrecord: record 1050/x"
    )


def test_raw_tensors_that_some_records_lack_are_decoded_where_they_are(tmp_path: Path) -> None:
    depth = bushel.Feature(dtype="float16", shape=(2, 3), encoding="raw", required=False)
    schema = bushel.Schema.of(depth=depth, number=bushel.Feature(dtype="int64"))
    tensors = [np.full((2, 3), number, np.float16) for number in range(5)]
    with bushel.Writer(tmp_path / "some.tfrecord", schema=schema) as writer:
        for number, tensor in enumerate(tensors):
            writer.write({"number": number} | ({"depth": tensor} if number % 2 else {}))
    split = bushel.open(tmp_path / "some.tfrecord", schema=schema)["all"]
    for rows in ([0, 1, 2, 3, 4], [1, 3], [0, 2]):
        column = split[rows]["depth"]
        assert column.present.tolist() == [row % 2 == 1 for row in rows]
        found = [column[at] for at in range(len(rows))]
        for row, values in zip(rows, found, strict=True):
            assert values.size == (6 if row % 2 else 0)
            assert (values == row).all()
