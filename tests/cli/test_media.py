"""`bushel build` with boxes, series, tiles and images to prepare, as a user types it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from PIL import Image


def bushel(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bushel", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def recipe_of(folder: Path) -> dict[str, Any]:
    return msgspec.toml.decode((folder / "recipe.toml").read_bytes(), type=dict[str, Any])


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "photos").mkdir()
    for n in range(4):
        shades = np.full((40, 60, 3), n * 40, np.uint8)
        Image.fromarray(shades).save(tmp_path / "photos" / f"{n}.jpg")
    rows = [f"{name},{n / 10},{n},{'up' if n < 30 else 'down'}" for name in "abc" for n in range(60)]
    (tmp_path / "logs.csv").write_text("\n".join(["id,t,x,what", *rows]))
    boxes = [f"photos/{n}.jpg,1,2,30,20,cat" for n in range(3)]
    (tmp_path / "boxes.csv").write_text("\n".join(["filename,xmin,ymin,xmax,ymax,class", *boxes]))
    return tmp_path


def test_options_of_series_are_in_the_recipe(files: Path) -> None:
    options = ("--windows", 20, "--stride", 10, "--time", "t", "--series", "id", "--label", "what", "--every", 0.2)
    done = bushel("build", "logs.csv", "out", *options, "--set", "ranges.x=[0, 100]", cwd=files)
    assert (done.returncode, done.stderr) == (0, "")
    assert recipe_of(files / "out")["source"] == {
        "kind": "series",
        "path": "logs.csv",
        "time": "t",
        "length": 20,
        "stride": 10,
        "series": "id",
        "label": "what",
        "every": 0.2,
        "ranges": {"x": [0.0, 100.0]},
    }


def test_windows_are_split_by_time_if_asked(files: Path) -> None:
    options = ("--windows", 10, "--time", "t", "--series", "id", "--split", "50/50", "--split-by", "time")
    assert bushel("build", "logs.csv", "out", *options, cwd=files).returncode == 0
    recipe = recipe_of(files / "out")
    assert recipe["source"]["time_split"] == "50/50"
    assert "split" not in recipe


def test_options_of_tiles_and_images_are_in_the_recipe(files: Path) -> None:
    assert bushel("build", "photos", "tiles", "--tiles", "16x20", "--overlap", 4, cwd=files).returncode == 0
    told = recipe_of(files / "tiles")["source"]
    assert (told["kind"], told["height"], told["width"], told["overlap"]) == ("tiles", 16, 20, 4)
    options = ("--resize", "16x16", "--fit", "pad", "--kernel", "area", "--image-format", "jpeg:80")
    assert bushel("build", "photos", "small", *options, cwd=files).returncode == 0
    made = recipe_of(files / "small")["transform"][0]
    assert made["transform"] == "resize_encoded"
    assert (made["height"], made["fit"], made["kernel"], made["form"], made["quality"]) == (
        16,
        "pad",
        "area",
        "jpeg",
        80,
    )


def test_classes_of_boxes_are_told_by_number_and_name(files: Path) -> None:
    assert "\n1 cat      3       1\n" in bushel("build", "boxes.csv", "out", cwd=files).stdout


def test_boxes_follow_a_resize_on_the_command_line(files: Path) -> None:
    done = bushel("build", "boxes.csv", "out", "--resize", "20x20", "--fit", "pad", cwd=files)
    assert done.returncode == 0
    record = json.loads(bushel("cat", "out", "--record", "train:0", cwd=files).stdout)["sample"]
    assert record["image/height"] == 20
    assert record["image/object/bbox/ymin"] == pytest.approx([(3 + 2 / 40 * 13) / 20], abs=0.01)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("photos", "out", "--fit", "pad"), "--fit needs --resize"),
        (("photos", "out", "--resize", "99999x99999"), "--resize must be at most 100,000,000 pixels"),
        (("photos", "out", "--resize", "20"), "--resize must be HEIGHTxWIDTH such as 224x224, got '20'"),
        (
            ("photos", "out", "--image-format", "gif"),
            "--image-format must be like jpeg:90, webp:80, png, raw, png:16 or raw:16; got 'gif'",
        ),
        (
            ("photos", "out", "--tiles", "9x9", "--overlap", "9"),
            "overlap must be from 0 to less than a tile's side, got 9",
        ),
        (("logs.csv", "out", "--windows", "9"), "--windows needs --time COL, the column of times"),
        (("logs.csv", "out", "--windows", "9", "--time", "when"), "no column 'when'"),
        (("logs.csv", "out", "--split", "80/20", "--split-by", "time"), "--split-by needs --windows"),
        (("photos", "out", "--kind", "cocoa"), "kind must be one of"),
        (("photos", "out", "--set", "x"), "--set must be NAME=VALUE, got 'x'"),
    ],
)
def test_wrong_options_are_one_line_and_exit_code_two(files: Path, options: Any, why: str) -> None:
    done = bushel("build", *options, cwd=files)
    assert done.returncode == 2
    assert why in done.stderr
    assert "Traceback" not in done.stderr
