"""Images with annotations that are not understood are never taken for classes by their folders."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from bushel.cli import cli

XML = "<?xml version='1.0'?><doc><image name='a'><object><name>cat</name></object></image></doc>"
LABEL_ME = '{"version": "5.0", "shapes": [{"label": "cat", "points": [[1, 2], [3, 4]]}], "imagePath": "0.png"}'
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
    ("suffix", "text"), [("xml", XML), ("json", LABEL_ME), ("txt", "0 0.5 0.5 0.25 0.25\n1 0.5 0.5 0.5 0.5\n")]
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
