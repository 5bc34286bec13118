"""Images with annotations that are not understood are never taken for classes by their folders."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import bushel
from bushel.cli import cli

XML = "<?xml version='1.0'?><doc><image name='a'><object><name>cat</name></object></image></doc>"
OBJECTS = '{"version": "5.0", "objects": [{"kind": "cat", "where": [[1, 2], [3, 4]]}]}'
CAPTIONS = '{"info": {}, "images": [], "annotations": [{"image_id": 1, "caption": "a cat"}]}'


def draw(path: Path, levels: int = 256) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (16, 16, 3) if levels > 32 else (16, 16)
    Image.fromarray(np.random.default_rng(0).integers(0, levels, shape, np.uint8)).save(path)


def photos(folder: Path) -> Path:
    for name in ("day", "night"):
        for row in range(4):
            draw(folder / name / f"{name}{row}.png")
    return folder


def build(folder: Path, *more: str):
    return CliRunner().invoke(cli, ["build", str(folder), str(folder.parent / "out"), *more])


@pytest.mark.parametrize(
    ("suffix", "text"), [("xml", XML), ("json", OBJECTS), ("txt", "cat 10 20 30 40\ndog 1 2 3 4\n")]
)
def test_a_file_of_annotations_beside_each_image_stops_the_build_with_both_readings(tmp_path, suffix, text):
    folder = photos(tmp_path / "data")
    for path in sorted(folder.rglob("*.png")):
        (path.parent / f"{path.stem}.{suffix}").write_text(text)
    done = build(folder)
    assert done.exit_code == 2
    assert f"the images have annotations that are not read: day/day0.{suffix}, " in done.output
    assert "--kind images" in done.output
    assert build(folder, "--kind", "images").exit_code == 0


def test_one_file_of_annotations_for_all_images_stops_it_too(tmp_path):
    folder = photos(tmp_path / "data")
    (folder / "notes").mkdir()
    (folder / "notes" / "train.json").write_text(CAPTIONS.replace("images", "pictures"))
    done = build(folder)
    assert (done.exit_code, "not read: notes/train.json" in done.output) == (2, True)


def test_masks_are_not_a_class_of_their_own(tmp_path):
    folder = tmp_path / "data"
    for row in range(6):
        draw(folder / "input" / f"{row}.png")
        draw(folder / "truth" / f"{row}.png", levels=3)
    done = build(folder)
    assert (done.exit_code, "'truth' looks like masks" in done.output) == (2, True)
    assert build(folder, "--kind", "images").exit_code == 0


def test_classes_with_the_same_file_names_captions_and_settings_build_as_before(tmp_path):
    folder = tmp_path / "data"
    for name in ("cat", "dog"):
        for row in range(4):
            draw(folder / name / f"{row}.png")
            (folder / name / f"{row}.txt").write_text("a picture of an animal in the garden")
    (folder / "settings.json").write_text('{"labels": {"cat": 0, "dog": 1}, "author": "me"}')
    (folder / "README.txt").write_text("two classes")
    assert build(folder).exit_code == 0


def test_files_of_unknown_suffixes_are_named_for_what_they_are_with_the_option_that_reads_them(tmp_path):
    folder = tmp_path / "films"
    folder.mkdir()
    for row in range(3):
        (folder / f"{row}.pos").write_text("a good film")
        (folder / f"{row}.neg").write_text("a bad film")
    done = build(folder)
    assert done.exit_code == 2
    assert ".neg is plain text, .pos is plain text" in done.output
    assert "--kind text --set suffixes=.neg,.pos" in done.output
    done = build(folder, "--kind", "text", "--set", "suffixes=.neg,.pos", "--label", r"name:.*\.(\w+)")
    assert done.exit_code == 0, done.output
    assert bushel.open(tmp_path / "out").label.names == ["neg", "pos"]


def test_an_old_excel_file_is_named_for_what_it_is(tmp_path):
    (tmp_path / "rows.xls").write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600))
    done = build(tmp_path / "rows.xls")
    assert (done.exit_code, "an Excel or Word file of before 2007 (save it as .xlsx)" in done.output) == (2, True)


def test_the_only_picture_is_resized_whatever_its_name(tmp_path):
    draw(tmp_path / "a.png")
    (tmp_path / "rows.csv").write_text("photo,label\na.png,1\n")
    assert build(tmp_path / "rows.csv", "--set", "image_column=photo", "--resize", "4x4").exit_code == 0
    assert next(iter(bushel.open(tmp_path / "out")["train"]))["photo/height"] == 4
    done = CliRunner().invoke(cli, ["build", str(tmp_path / "out"), str(tmp_path / "small"), "--resize", "2x2"])
    assert done.exit_code == 0, done.output
    assert "'photo' is the only picture" in done.output
    assert next(iter(bushel.open(tmp_path / "small")["train"]))["photo/height"] == 2
