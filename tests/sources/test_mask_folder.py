"""Images and masks in folders beside each other."""

import io
import pickle
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import bushel
from bushel.cli import cli
from bushel.sources import masks, open_source

RANDOM = np.random.default_rng(0)


def photo(path: Path, size: tuple[int, int] = (12, 8)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(RANDOM.integers(0, 256, (size[1], size[0], 3), np.uint8)).save(path)


def mask(path: Path, ids: np.ndarray, mode: str | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    made = Image.fromarray(ids)
    if mode == "P":
        made = Image.frombytes("P", ids.shape[::-1], ids.tobytes())
        made.putpalette([200, 10, 10, 10, 200, 10, 10, 10, 200])
    made.save(path)


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)))


IDS = np.arange(96).reshape(8, 12).astype(np.uint8) % 3


@pytest.mark.parametrize("mode", ["L", "P"])
@pytest.mark.parametrize(("place", "name"), [("{}/x{}", "{}"), ("train/{}/x{}", "{}"), ("{}/a{}", "{}")])
def test_images_and_masks_are_paired_and_masks_hold_numbers_of_classes(tmp_path, mode, place, name):
    for number in range(3):
        photo(tmp_path / "data" / (place.format("images", number) + ".jpg"))
        mask(tmp_path / "data" / (place.format("masks", number) + ".png"), (IDS + number) % 3, mode)
    done = CliRunner().invoke(cli, ["build", str(tmp_path / "data"), str(tmp_path / "out"), "--workers", "2"])
    assert done.exit_code == 0, done.output
    assert "taken for: masks" in done.output
    found = {record["key"][-5]: pixels(record["mask"]) for record in bushel.open(tmp_path / "out")["train"]}
    assert all((found[str(number)] == (IDS + number) % 3).all() for number in range(3))


def test_names_may_differ_by_what_all_of_a_folder_begin_or_end_with(tmp_path):
    for number in (10, 11, 20):
        photo(tmp_path / "images" / f"photo_{number}.jpg")
        mask(tmp_path / "masks" / f"gt_{number}_mask.png", IDS)
    assert len(masks(tmp_path).files) == 3


def test_what_has_no_partner_is_counted_and_splits_come_from_folders(tmp_path):
    for split in ("train", "val"):
        for number in range(12):
            photo(tmp_path / "images" / split / f"{number}.jpg")
            mask(tmp_path / "masks" / split / f"{number}.png", IDS)
    (tmp_path / "masks" / "train" / "3.png").unlink()
    (tmp_path / "images" / "val" / "4.jpg").unlink()
    source = open_source(tmp_path)
    listing = source.list(0, ["split"])
    assert listing.counted["images without a mask, left out"] == 1
    assert listing.counted["masks without an image, left out"] == 1
    assert listing.columns["split"].to_list().count(b"val") == 11
    again = pickle.loads(pickle.dumps(source))
    assert [len(block.rows) for block in again.read(0, np.arange(22))] == [22]


def test_a_mask_of_another_size_or_with_an_unknown_number_is_refused_with_its_image(tmp_path):
    for number in range(3):
        photo(tmp_path / "images" / f"{number}.jpg")
        mask(tmp_path / "masks" / f"{number}.png", IDS)
    mask(tmp_path / "masks" / "1.png", IDS[:, :5].copy())
    mask(tmp_path / "masks" / "2.png", IDS + 5)
    (tmp_path / "labelmap.csv").write_text("name,r,g,b\nnone,0,0,0\ncat,255,0,0\ndog,0,255,0\n")
    (block,) = masks(tmp_path).read(0, np.arange(3))
    assert block.rows.tolist() == [0]
    assert [one.reason for one in block.refused] == [
        "its mask: 1.png has 5x8 pixels, and the image 12x8",
        "its mask: 2.png has a pixel of 5, and labelmap.csv has 3 classes",
    ]


def test_colours_become_numbers_by_a_table_and_are_refused_without(tmp_path):
    colours = np.array([(0, 0, 0), (255, 0, 0), (0, 255, 0)], np.uint8)
    for number in range(2):
        photo(tmp_path / "images" / f"{number}.jpg")
        mask(tmp_path / "masks" / f"{number}.png", colours[IDS])
    (block,) = masks(tmp_path).read(0, np.arange(2))
    assert "no table says which class a colour is" in block.refused[0].reason
    (tmp_path / "labelmap.csv").write_text("name,r,g,b\nnone,0,0,0\ncat,255,0,0\ndog,0,255,0\n")
    (block,) = masks(tmp_path).read(0, np.arange(2))
    assert (pixels(block.columns["mask"][0]) == IDS).all()


def test_a_mask_turns_with_its_image(tmp_path):
    turned = Image.Exif()
    turned[274] = 6
    for number in range(2):
        photo(tmp_path / "images" / f"{number}.jpg")
        path = tmp_path / "images" / f"{number}.jpg"
        Image.open(path).save(path, exif=turned)
        mask(tmp_path / "masks" / f"{number}.png", IDS)
    (block,) = masks(tmp_path).read(0, np.arange(2))
    assert not block.refused
    assert (pixels(block.columns["mask"][0]) == np.rot90(IDS, -1)).all()


def test_classes_with_the_same_names_stay_classes(tmp_path):
    for word in ("cat", "dog", "fox"):
        for number in range(3):
            photo(tmp_path / word / f"{number}.jpg")
    assert open_source(tmp_path).describe()["kind"] == "images"


def test_few_levels_alone_stop_with_both_readings(tmp_path):
    for number in range(3):
        photo(tmp_path / "data" / "input" / f"{number}.jpg")
        mask(tmp_path / "data" / "truth" / f"{number}.png", IDS)
    done = CliRunner().invoke(cli, ["build", str(tmp_path / "data"), str(tmp_path / "out")])
    assert done.exit_code == 2
    assert "--kind masks --set images=input --set masks=truth" in done.output
    words = ["--kind", "masks", "--set", "images=input", "--set", "masks=truth"]
    assert CliRunner().invoke(cli, ["build", str(tmp_path / "data"), str(tmp_path / "out"), *words]).exit_code == 0
