from pathlib import Path, PurePath

import numpy as np
import pytest

import bushel
from bushel.checking.collect.one_pass import list_data
from bushel.data.splits import common_names, in_order, split_named, split_of_file, split_of_shard
from bushel.errors import MissingName
from bushel.sources import records
from bushel.training.inputs.splits import open_splits


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
        ("pet_faces_train.record-00000-of-00010", "train"),
        ("coco_val.tf_record", "val"),
        ("test.tfr", "test"),
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


@pytest.mark.parametrize(
    ("path", "split"),
    [
        ("data/val-*.tfrecord", "val"),
        ("data/train-?????-of-00008.tfrecord", "train"),
        ("data/train/part-00000.tfrecord", "train"),
        ("data/Validation/000.tfrecord", "val"),
        ("data/training_notes/part-00000.tfrecord", None),
        ("data/train_extra-00000-of-00001.tfrecord", None),
    ],
)
def test_a_file_is_of_the_split_that_its_name_or_its_folder_tells(path: str, split: str | None) -> None:
    assert split_of_file(PurePath(path)) == split


def test_files_of_train_extra_are_of_no_split_to_reading_and_to_checking(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "train_extra-00000-of-00001.tfrecord") as writer:
        writer.write({"x": 1})
    assert list(bushel.open(tmp_path)) == ["all"]
    files, _, _ = list_data([tmp_path], [])
    assert [file.split for file in files] == ["all"]


@pytest.mark.parametrize("name", ["val", "valid", "validation", "Validation", "dev", "eval"])
def test_a_split_column_may_call_validation_as_folders_may(tmp_path: Path, name: str) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("x,split\n" + "".join(f"{i},{name if i % 4 == 0 else 'Training'}\n" for i in range(20)))
    bushel.build(rows, tmp_path / "out", split="split")
    data = bushel.open(tmp_path / "out")
    assert list(data) == ["train", "val"]
    assert len(data[name]) == 5


def test_splits_that_mean_the_same_are_not_mixed_and_a_dataset_keeps_its_names(tmp_path: Path) -> None:
    assert common_names(["train", "val", "dev"]) == {"train": "train", "val": "val", "dev": "dev"}
    assert common_names(["Train", "validation", "fold1"]) == {"Train": "train", "validation": "val", "fold1": "fold1"}
    assert common_names(["validation"], known=["train", "validation"]) == {"validation": "validation"}
    assert in_order(["fold1", "test", "dev", "a", "training"]) == ["training", "dev", "test", "a", "fold1"]


def test_a_split_is_found_by_any_of_its_names(tmp_path: Path) -> None:
    bushel.build({"x": list(range(40))}, tmp_path / "out", split="train=0.75,dev=0.25", exact=True)
    data = bushel.open(tmp_path / "out")
    assert list(data) == ["train", "dev"]
    assert data["val"] is data["dev"] is data["validation"]
    assert "test" not in data
    with pytest.raises(MissingName, match="no split 'test'"):
        data["test"]
    assert data.choose(None, "test", "val").name == "dev"
    with pytest.raises(ValueError, match="^split must be one of train, dev; got None$"):
        data.choose()


def test_a_split_called_training_is_fitted_on_and_weighs_classes(tmp_path: Path) -> None:
    rows = {"x": np.arange(40.0), "label": np.arange(40) % 2}
    steps = [bushel.transforms.standardise("x")]
    bushel.build(rows, tmp_path / "out", split="training=0.75,test=0.25", exact=True, transforms=steps)
    data = bushel.open(tmp_path / "out")
    values = data["train"].values("x")
    assert np.mean(values) == pytest.approx(0, abs=1e-6)
    assert data.class_weights().keys() == {0, 1}


def test_training_validates_with_the_split_that_means_it(tmp_path: Path) -> None:
    bushel.build(
        {"x": list(range(40)), "label": [0, 1] * 20}, tmp_path / "out", split="train=0.75,dev=0.25", exact=True
    )
    parts = open_splits(tmp_path / "out", seed=0)
    assert (parts.train.name, parts.val.name, parts.notes) == ("train", "dev", ())
