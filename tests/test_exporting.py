"""A dataset that is exported and built again holds the same values, whatever the format."""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image
from scipy import sparse

import bushel
from bushel import BushelError, Feature, FileProblem, Schema, export_dataset, exporting, sources
from bushel.exporting import FORMATS
from bushel.reading import Split


def write_photos(folder: Path, count: int = 40) -> Path:
    noise = np.random.default_rng(0)
    for number in range(count):
        place = folder / ("cat", "wild dog")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        pixels = noise.integers(0, 255, (9 + number % 3, 8, 3), np.uint8)
        Image.fromarray(pixels).save(place / f"{number}.a.{'png' if number % 4 else 'jpg'}")
    return folder


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    bushel.build(write_photos(tmp_path / "photos"), tmp_path / "data", split="80/20", shards=2)
    return tmp_path / "data"


def samples_of(split: Split) -> list[dict[str, Any]]:
    names = split.classes
    found = [split[number] for number in range(len(split))]
    return [{**one, "label": names[one["label"]]} if names and "label" in one else one for one in found]


def by(name: str, samples: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    return {sample[name]: {key: value for key, value in sample.items() if key != "key"} for sample in samples}


def built_again(out: Path) -> bushel.Dataset:
    bushel.build(out, out.parent / f"{out.name}-again")
    return bushel.open(out.parent / f"{out.name}-again")


@pytest.mark.parametrize("format", FORMATS)
def test_images_come_back_with_their_classes_and_splits(photos: Path, format: Any, tmp_path: Path) -> None:
    exported = export_dataset(photos, tmp_path / "out", format=format)
    before, after = bushel.open(photos), built_again(tmp_path / "out")
    assert list(after) == list(before) == ["train", "val"]
    assert exported.records == {name: len(split) for name, split in before.splits.items()}
    for name in before:
        given = by("image", samples_of(before[name]))
        found = by("image", samples_of(after[name]))
        if format == "webdataset":  # labels are numbers in tars; _classes.txt names them
            assert (tmp_path / "out" / "_classes.txt").read_text().splitlines() == list(before[name].classes)
            found = {key: {**one, "label": before[name].classes[one["label"]]} for key, one in found.items()}
        assert found == given


@pytest.mark.parametrize("format", ["parquet", "jsonl", "webdataset"])
def test_tables_come_back_with_missing_values_lists_and_arrays(format: Any, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).normal(size=(30, 3, 2)).astype(np.float32)
    noise = noise[:, :, 0] if format == "jsonl" else noise  # lists of lists are not read from JSON
    samples: list[dict[str, Any]] = [
        {"n": n, "x": noise[n], "tokens": [n] * (n % 4 + 1), "words": ["ä", "b"][: n % 2 + 1], "city": f"Zürich {n}"}
        | ({} if n % 5 == 0 else {"age": n / 4})
        for n in range(30)
    ]
    bushel.build(samples, tmp_path / "data")
    export_dataset(tmp_path / "data", tmp_path / "out", format=format)
    before, after = bushel.open(tmp_path / "data")["train"], built_again(tmp_path / "out")["train"]
    given, found = by("n", samples_of(before)), by("n", samples_of(after))
    assert given.keys() == found.keys()
    for number, sample in given.items():
        assert found[number].keys() == sample.keys()
        for name, value in sample.items():
            np.testing.assert_array_equal(np.asarray(found[number][name]).reshape(-1), np.asarray(value).reshape(-1))


def test_every_type_goes_into_parquet(tmp_path: Path) -> None:
    schema = Schema.of(
        pixels=Feature(dtype="uint8", shape=(2, 3)),
        half=Feature(dtype="float16", shape=(4,)),
        blob=Feature(dtype="bytes"),
        frames=Feature(dtype="int64", sequence=True),
        maybe=Feature(dtype="float32", shape=(2,), required=False),
    )
    samples = [
        {
            "pixels": np.full((2, 3), n, np.uint8),
            "half": np.arange(4, dtype=np.float16) + n,
            "blob": bytes([n, 255]),
            "frames": [n, n + 1],
        }
        | ({"maybe": np.array([n, 1], np.float32)} if n % 2 else {})
        for n in range(6)
    ]
    with bushel.Writer(tmp_path / "all.tfrecord", schema=schema) as writer:
        for sample in samples:
            writer.write(sample)
    export_dataset(bushel.open(tmp_path / "all.tfrecord", schema=schema), tmp_path / "out")
    [path] = (tmp_path / "out").glob("*.parquet")
    rows = pq.read_table(path).to_pylist()
    for row, sample in zip(rows, samples, strict=True):
        assert row["pixels"] == sample["pixels"].tolist()
        assert row["half"] == sample["half"].tolist()
        assert row["blob"] == sample["blob"]
        assert row["frames"] == sample["frames"]
        assert row["maybe"] == (sample["maybe"].tolist() if "maybe" in sample else None)


def test_sparse_features_keep_their_places_and_values(tmp_path: Path) -> None:
    matrix = sparse.random(20, 500, 0.02, "csr", dtype=np.float32, random_state=1)
    bushel.build({"x": matrix}, tmp_path / "data", order="source")
    export_dataset(tmp_path / "data", tmp_path / "out")
    [path] = (tmp_path / "out").glob("*.parquet")
    table = pq.read_table(path)
    assert [len(row) for row in table["x/values"].to_pylist()] == np.diff(matrix.indptr).tolist()


def test_an_export_that_was_stopped_continues_and_gives_the_same_bytes(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_dataset(photos, tmp_path / "whole")
    count, before = 0, dict(exporting.FORMATS)

    def failing(folder: Path, part: Any, content: Any, blocks: Iterator[Any]) -> Any:
        nonlocal count
        count += 1
        if count == 3:
            raise KeyboardInterrupt
        return before["parquet"](folder, part, content, blocks)

    monkeypatch.setitem(exporting.FORMATS, "parquet", failing)
    monkeypatch.setattr(exporting, "available_cores", lambda: 1)
    with pytest.raises(KeyboardInterrupt):
        export_dataset(photos, tmp_path / "out")
    monkeypatch.undo()
    assert not (tmp_path / "out" / "_export.json").exists()
    exported = export_dataset(photos, tmp_path / "out")
    assert exported.resumed == 2
    names = sorted(path.name for path in (tmp_path / "whole").iterdir())
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    for name in names:
        if name.endswith(".parquet"):
            assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_folder_that_is_not_empty_is_replaced_only_if_asked(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("keep me")
    with pytest.raises(FileProblem, match="is not empty") as caught:
        export_dataset(photos, tmp_path / "out")
    assert caught.value.help == ("Choose another folder, or replace it: --overwrite",)
    assert (tmp_path / "out" / "mine.txt").exists()
    export_dataset(photos, tmp_path / "out", overwrite=True)
    assert not (tmp_path / "out" / "mine.txt").exists()


def test_a_selection_and_raw_data_are_exported_too(photos: Path, tmp_path: Path) -> None:
    train = bushel.open(photos)["train"]
    exported = export_dataset(train.filter("label == 'cat'"), tmp_path / "cats", format="folder")
    assert {path.parent.name for path in (tmp_path / "cats").rglob("*.??g")} == {"cat"}
    assert exported.records["train"] == len(train.filter("label == 'cat'"))
    raw = export_dataset(tmp_path / "photos", tmp_path / "raw", format="webdataset")
    assert raw.records == {"train": 40}


def test_keys_that_would_leave_their_folder_stay_in_it(tmp_path: Path) -> None:
    evil = ["../../evil.txt", "/etc/passwd", "..", "a/../../b", "ok"]
    samples = [{"text": f"text {n}", "key": key, "label": "../up" if n else "x"} for n, key in enumerate(evil)]
    bushel.build(sources.iterable(samples, key="key"), tmp_path / "data")
    export_dataset(tmp_path / "data", tmp_path / "out" / "deep", format="folder")
    found = {path.read_text() for path in (tmp_path / "out" / "deep" / "train").rglob("*.txt")}
    assert found == {sample["text"] for sample in samples}
    export_dataset(tmp_path / "data", tmp_path / "tars", format="webdataset")
    [path] = (tmp_path / "tars").glob("*.tar")
    with tarfile.open(path) as archive:
        assert not any(name.startswith("/") or ".." in name.split("/") for name in archive.getnames())


@pytest.mark.parametrize(
    ("keys", "labels"),
    [
        (["x/y", "x__y", "q", " q", "Q", "é", "e\u0301", "x.txt"], ["a"] * 8),
        (["k"] * 8, ["c/d", "c_d", "C_D", "c_d ", "c\\d", "..", ".", "__"]),
        ([f"{n}" for n in range(8)], ["", "0.txt", "", "a", "A", "", "a", ""]),
    ],
)
def test_a_folder_has_as_many_files_as_records_whatever_keys_and_classes_are(tmp_path, keys, labels) -> None:
    with bushel.Writer(tmp_path / "all.tfrecord") as writer:
        for number, (key, label) in enumerate(zip(keys, labels, strict=True)):
            writer.write({"text": f"text {number}", "key": key, "label": label})
    exported = export_dataset(tmp_path / "all.tfrecord", tmp_path / "out", format="folder")
    files = [path for path in (tmp_path / "out").rglob("*.txt") if path.is_file()]
    assert sum(exported.records.values()) == len(files) == 8
    assert {path.read_text() for path in files} == {f"text {number}" for number in range(8)}
    assert len({str(path).casefold() for path in files}) == 8


def test_features_that_become_one_name_are_different_members_of_a_tar(tmp_path: Path) -> None:
    names = ["a/b", "a.b", "a_b", "json", "cls"]
    with bushel.Writer(tmp_path / "all.tfrecord") as writer:
        writer.write({name: name.encode() + b"\xff" for name in names} | {"number": 1})
    export_dataset(tmp_path / "all.tfrecord", tmp_path / "out", format="webdataset")
    [path] = (tmp_path / "out").glob("*.tar")
    with tarfile.open(path) as archive:
        members = archive.getnames()
    assert len(set(members)) == len(members) == len(names) + 1


def test_splits_whose_names_differ_in_case_alone_are_exported_apart(tmp_path: Path) -> None:
    bushel.build([{"text": f"t {n}"} for n in range(10)], tmp_path / "data", split="train=0.5,other=0.5")
    manifest = tmp_path / "data" / "dataset.json"
    manifest.write_text(manifest.read_text().replace('"other":', '"Train":'))  # as datasets of others have them
    exported = export_dataset(tmp_path / "data", tmp_path / "out", format="jsonl")
    files = [path.name for path in (tmp_path / "out").glob("*.jsonl")]
    assert len({name.lower() for name in files}) == len(files) == 2
    assert sum(exported.records.values()) == 10


def test_what_a_folder_cannot_hold_is_counted_or_refused(photos: Path, tmp_path: Path) -> None:
    bushel.build([{"text": f"t {n}", "score": n, "label": "ab"[n % 2]} for n in range(8)], tmp_path / "texts")
    exported = export_dataset(tmp_path / "texts", tmp_path / "out", format="folder")
    assert exported.notes == {"records without their score, which a folder does not hold": 8}
    bushel.build([{"x": n} for n in range(8)], tmp_path / "numbers")
    with pytest.raises(BushelError, match="neither an image nor a text"):
        export_dataset(tmp_path / "numbers", tmp_path / "no", format="folder")


def test_boxes_masks_and_grey_pixels_are_exported(tmp_path: Path) -> None:
    Image.new("RGB", (8, 6)).save(tmp_path / "1.png")
    box = {"id": 1, "image_id": 1, "category_id": 3, "bbox": [1, 1, 4, 3], "segmentation": [[1, 1, 5, 1, 5, 4]]}
    known = {"images": [{"id": 1, "file_name": "1.png", "width": 8, "height": 6}], "annotations": [box]}
    (tmp_path / "boxes.json").write_text(json.dumps({**known, "categories": [{"id": 3, "name": "cat"}]}))
    bushel.build(sources.coco(tmp_path / "boxes.json", masks=True), tmp_path / "boxes")
    given: Any = FORMATS
    exported = {format: export_dataset(tmp_path / "boxes", tmp_path / format, format=format) for format in given}
    assert all(one.records == {"train": 1} for one in exported.values())
    left_out = "records without their image/object/class/label, which a folder does not hold"
    assert exported["folder"].notes[left_out] == 1
    assert [path.suffix for path in (tmp_path / "folder" / "train").iterdir()] == [".png"]
    grey = np.arange(48, dtype=np.uint8).reshape(1, 6, 8)
    bushel.build(sources.arrays({"x": grey, "label": [1]}, types={"x": "uint8"}), tmp_path / "grey")
    export_dataset(tmp_path / "grey", tmp_path / "pixels", format="folder")
    np.testing.assert_array_equal(Image.open(next((tmp_path / "pixels").rglob("*.png"))), grey[0])


def test_numbers_that_json_does_not_have_are_null_and_counted(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "x.tfrecord") as writer:
        writer.write({"x": float("nan"), "b": b"\x00\xff"})
    exported = export_dataset(tmp_path / "x.tfrecord", tmp_path / "out", format="jsonl")
    [path] = (tmp_path / "out").glob("*.jsonl")
    assert json.loads(path.read_text()) == {"x": None, "b": "AP8="}
    assert exported.notes == {
        "numbers that are not finite, written as null": 1,
        "values of bytes, written in base64": 1,
    }


def test_damaged_records_stop_an_export_unless_they_are_skipped(photos: Path, tmp_path: Path) -> None:
    [path, *_] = bushel.open(photos)["train"].paths
    data = bytearray(path.read_bytes())
    data[40] ^= 0xFF
    path.write_bytes(bytes(data))
    with pytest.raises(BushelError, match="record 0"):
        export_dataset(photos, tmp_path / "out")
    exported = export_dataset(photos, tmp_path / "out", on_fault="skip")
    assert exported.skipped == 1


def test_an_unknown_format_is_refused_with_those_there_are(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="format must be one of parquet, webdataset, jsonl, folder, tfds; got 'csv'"):
        export_dataset(photos, tmp_path / "out", format="csv")  # type: ignore[arg-type]


def test_an_export_that_was_killed_before_it_began_or_when_it_was_complete_is_neither_refused_nor_left_dirty(
    tmp_path: Path,
) -> None:
    (tmp_path / "rows.csv").write_text("x,label\n1,a\n2,b\n")
    bushel.build(tmp_path / "rows.csv", tmp_path / "data")
    (tmp_path / "out" / "_exporting").mkdir(parents=True)
    assert export_dataset(tmp_path / "data", tmp_path / "out", format="jsonl").records == {"train": 2}
    before = (tmp_path / "out" / "_export.json").read_bytes()
    (tmp_path / "out" / "_exporting").mkdir()
    with pytest.raises(bushel.FileProblem, match="is not empty"):
        export_dataset(tmp_path / "data", tmp_path / "out", format="jsonl")
    assert not (tmp_path / "out" / "_exporting").exists()
    assert (tmp_path / "out" / "_export.json").read_bytes() == before
