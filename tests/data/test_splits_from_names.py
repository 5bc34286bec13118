from pathlib import Path

import pytest

import bushel
from bushel.data.splits import split_named, split_of_shard
from bushel.sources import records


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train-00000-of-00008.tfrecord", "train"),
        ("x-train.tfrecord-00000-of-00008", "train"),
        ("train.tfrecord-3", "train"),
        ("train7.tfrecord", "train"),
        ("val-g001-00000-of-00002.tfrecord.gz", "val"),
        ("cifar10_test.tfrecords", "test"),
        ("my_eval.tfrecord", "val"),
        ("train-00000-of-00001-b0a3c2f1d4e59876.parquet", "train"),
        ("train_extra-00000-of-00001.tfrecord", None),
        ("trained.tfrecord", None),
        ("000.tfrecord", None),
        ("", None),
    ],
)
def test_only_a_whole_last_word_is_the_split_of_a_shard(name: str, split: str | None) -> None:
    assert split_of_shard(name) == split


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("instances_train2017", "train"),
        ("val-annotations", "val"),
        ("person keypoints TEST", "test"),
        ("dev*", "val"),
        ("contest", None),
        ("annotations", None),
    ],
)
def test_a_name_may_hold_a_split_as_any_word(name: str, split: str | None) -> None:
    assert split_named(name) == split


@pytest.mark.parametrize("names", [("train-0", "dev-0"), ("train_a", "train_b"), ("x_train1", "x_eval1"), ("a", "b")])
def test_reading_and_building_tell_the_same_splits(tmp_path: Path, names: tuple[str, str]) -> None:
    for name in names:
        with bushel.Writer(tmp_path / f"{name}.tfrecord") as writer:
            writer.write({"x": 1})
    told = records(tmp_path).split
    read = sorted(bushel.open(tmp_path))
    assert read == (["all"] if told is None else ["train", "val"])
