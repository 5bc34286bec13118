"""Labels and groups of files from their names, or from a table beside them, for every source of files."""

import json
import wave
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import bushel
from bushel.cli import cli
from bushel.errors import FileProblem
from bushel.sources import images, open_source


def draw(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)).save(path)


def beep(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(np.arange(800, dtype=np.int16).tobytes())


def build(*words: object):
    return CliRunner().invoke(cli, ["build", *map(str, words)])


def labels_of(folder: Path) -> dict[str, str]:
    data = bushel.open(folder)
    found = {}
    for name in data.splits:
        for record in data[name]:
            codes = np.atleast_1d(record["label"]).tolist() if "label" in record else []
            found[Path(record["key"]).name] = "+".join(sorted(data.label.names[code] for code in codes))
    return found


def test_the_first_group_of_a_pattern_for_names_is_the_label_of_sounds(tmp_path):
    for name in ("7_anna_0", "7_bob_0", "3_anna_1", "3_bob_1"):
        beep(tmp_path / "sounds" / f"{name}.wav")
    done = build(tmp_path / "sounds", tmp_path / "out", "--label", r"name:(\d)_.*")
    assert done.exit_code == 0, done.output
    assert labels_of(tmp_path / "out") == {
        "7_anna_0.wav": "7",
        "7_bob_0.wav": "7",
        "3_anna_1.wav": "3",
        "3_bob_1.wav": "3",
    }


def test_a_group_from_names_keeps_what_belongs_together_in_one_split(tmp_path):
    for house in range(20):
        for room in ("bath", "bed", "front"):
            draw(tmp_path / "rooms" / f"{house}_{room}.png")
    done = build(
        *(tmp_path / "rooms", tmp_path / "out", "--split", "50/50"),
        *("--label", r"name:\d+_(\w+)", "--group", r"name:(\d+)_.*"),
    )
    assert done.exit_code == 0, done.output
    data = bushel.open(tmp_path / "out")
    houses = {name: {Path(record["key"]).name.split("_")[0] for record in data[name]} for name in data.splits}
    assert len(data.label.names) == 3
    assert all(houses.values())
    assert not houses["train"] & houses["val"]
    again = build(tmp_path / "out" / "recipe.toml", tmp_path / "again")
    assert again.exit_code == 0, again.output
    assert (tmp_path / "again" / "train-00000-of-00001.tfrecord").read_bytes() == (
        tmp_path / "out" / "train-00000-of-00001.tfrecord"
    ).read_bytes()


def test_files_whose_names_do_not_match_are_refused_by_name_and_counted(tmp_path):
    for name in ("1_cat", "2_dog", "3_cat", "readme"):
        draw(tmp_path / "flat" / f"{name}.png")
    done = build(tmp_path / "flat", tmp_path / "out", "--label", r"name:\d_(\w+)")
    assert done.exit_code == 1
    assert "1 time: read: its name does not match" in done.output
    refused = [json.loads(line) for line in (tmp_path / "out" / "_quarantine.jsonl").read_text().splitlines()]
    assert [Path(one["source"]).name for one in refused] == ["readme.png"]


@pytest.mark.parametrize(
    ("pattern", "what"), [("name:(", "is not a regular expression"), ("name:abc", "has no group: put the part")]
)
def test_a_pattern_that_cannot_give_a_value_is_refused(tmp_path, pattern, what):
    draw(tmp_path / "flat" / "1.png")
    done = build(tmp_path / "flat", tmp_path / "out", "--label", pattern)
    assert (done.exit_code, what in done.output) == (2, True)


def test_rows_of_a_table_have_no_names_to_match_but_a_column_of_that_very_name_wins(tmp_path):
    (tmp_path / "rows.csv").write_text("a,name:(x)\n1,cat\n2,dog\n")
    assert build(tmp_path / "rows.csv", tmp_path / "out", "--label", "name:(x)").exit_code == 0
    assert bushel.open(tmp_path / "out").label.names == ["cat", "dog"]
    done = build(tmp_path / "rows.csv", tmp_path / "none", "--label", "name:(y)")
    assert (done.exit_code, "the samples of this source have no file names" in done.output) == (2, True)


@pytest.mark.parametrize("kind", ["sounds", "texts"])
def test_a_table_labels_sounds_and_texts_too(tmp_path, kind):
    folder = tmp_path / kind
    for number in range(4):
        if kind == "sounds":
            beep(folder / f"{number}.wav")
        else:
            folder.mkdir(exist_ok=True)
            (folder / f"{number}.txt").write_text(f"text number {number}")
    (tmp_path / "labels.csv").write_text("file,label\n0,cat\n1,dog\n2,cat\n3,dog\n9,cat\n")
    done = build(folder, tmp_path / "out", "--set", f"labels={tmp_path / 'labels.csv'}")
    assert done.exit_code == 0, done.output
    assert [*labels_of(tmp_path / "out").values()].count("cat") == 2
    described = open_source(folder, labels=str(tmp_path / "labels.csv")).describe()
    assert open_source(described).schema() == open_source(folder, labels=str(tmp_path / "labels.csv")).schema()


def test_columns_of_0_and_1_are_several_labels_and_one_table_per_split_is_found(tmp_path):
    for name in ("train/a", "train/b", "val/c"):
        draw(tmp_path / "data" / f"{name}.png")
    (tmp_path / "data" / "train" / "_classes.csv").write_text("filename, cat, dog\na.png, 1, 0\nb.png, 1, 1\n")
    (tmp_path / "data" / "val" / "_classes.csv").write_text("filename, cat, dog\nc.png, 0, 0\n")
    assert build(tmp_path / "data", tmp_path / "out").exit_code == 0
    assert labels_of(tmp_path / "out") == {"a.png": "cat", "b.png": "cat+dog", "c.png": ""}


def test_a_list_of_files_in_a_text_file_gives_their_labels(tmp_path):
    for name in ("a", "b", "c"):
        draw(tmp_path / "data" / "images" / f"{name}.png")
    (tmp_path / "data" / "list.txt").write_text("a.png cat\nb.png dog\nc.png cat\n")
    assert build(tmp_path / "data", tmp_path / "out").exit_code == 0
    assert labels_of(tmp_path / "out") == {"a.png": "cat", "b.png": "dog", "c.png": "cat"}


def test_tables_that_agree_or_complete_each_other_are_used_and_those_that_differ_stop_the_build(tmp_path):
    for name in ("a", "b", "c"):
        draw(tmp_path / f"{name}.png")
    (tmp_path / "train.csv").write_text("file,label\na.png,cat\nb.png,dog\n")
    (tmp_path / "test.csv").write_text("file,label\nc.png,cat\n")
    source = images(tmp_path)
    assert source.listed["label"].to_list() == [b"cat", b"dog", b"cat"]
    assert source.listed["split"].to_list() == [b"train", b"train", b"test"]
    (tmp_path / "test.csv").write_text("file,label\na.png,dog\n")
    with pytest.raises(FileProblem, match=r"(?s)they differ: test.csv, train.csv.*labels=.*test.csv"):
        _ = images(tmp_path).listed
