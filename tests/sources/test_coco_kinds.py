"""COCO's files besides boxes: captions, keypoints, panoptic segments, classes of images, lists of images."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import bushel
from bushel.cli import cli
from bushel.errors import FileProblem
from bushel.sources import coco, open_source


def write(
    folder: Path, name: str, annotations: list[dict[str, Any]], classes: tuple[str, ...] = ("cat", "dog")
) -> None:
    for split in ("train", "val"):
        path = folder / "images" / split / f"{split}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 40, 3), np.uint8)).save(path)
        content = {
            "images": [{"id": 1, "file_name": f"{split}.png", "width": 40, "height": 20}],
            "annotations": [{"image_id": 1, **one} for one in annotations],
            "categories": [{"id": number, "name": word} for number, word in enumerate(classes, 1)],
        }
        (folder / "annotations").mkdir(exist_ok=True)
        (folder / "annotations" / f"{name}_{split}.json").write_text(json.dumps(content))


def built(folder: Path, *more: str) -> Any:
    done = CliRunner().invoke(cli, ["build", str(folder), str(folder.parent / "out"), "--overwrite", *more])
    assert done.exit_code == 0, done.output
    return bushel.open(folder.parent / "out")


BOX = {"category_id": 1, "bbox": [10, 5, 20, 5]}


def test_captions_are_a_list_of_texts_for_each_image_and_no_label(tmp_path):
    write(tmp_path / "data", "captions", [{"caption": "a cat"}, {"caption": "an animal"}], ())
    data = built(tmp_path / "data")
    (record,) = data["val"]
    assert record["image/caption"] == ["a cat", "an animal"]
    assert data.label is None
    assert not any("object" in name for name in record)


def test_keypoints_are_shares_of_the_image_with_their_visibility(tmp_path):
    pose = [10, 5, 2, 30, 10, 1]
    write(tmp_path / "data", "person_keypoints", [BOX | {"keypoints": pose}, BOX | {"keypoints": pose[:3]}])
    (record,) = built(tmp_path / "data")["train"]
    assert record["image/object/keypoint/x"].tolist() == [0.25, 0.75, 0.25]
    assert record["image/object/keypoint/y"].tolist() == [0.25, 0.5, 0.25]
    assert record["image/object/keypoint/visibility"].tolist() == [2, 1, 2]
    assert record["image/object/keypoint/num"].tolist() == [2, 1]


def test_keypoints_of_an_object_that_is_left_out_go_with_it(tmp_path):
    bad = {"category_id": 1, "bbox": [10, 5, 0, 0], "keypoints": [1, 1, 1]}
    write(tmp_path / "data", "person_keypoints", [bad, BOX | {"keypoints": [10, 5, 2]}])
    (record,) = built(tmp_path / "data", "--bad-boxes", "clip")["train"]
    assert np.ravel(record["image/object/keypoint/x"]).tolist() == [0.25]


def test_panoptic_segments_have_masks_from_their_png(tmp_path):
    segments = [{"id": 1 + 256 * 2, **BOX}, {"id": 9, "category_id": 2, "bbox": [0, 0, 5, 5]}]
    write(tmp_path / "data", "panoptic", [{"file_name": "x.png", "segments_info": segments}])
    ids = np.zeros((20, 40, 3), np.uint8)
    ids[5:10, 10:30] = (1, 2, 0)
    for split in ("train", "val"):
        folder = tmp_path / "data" / "annotations" / f"panoptic_{split}"
        folder.mkdir()
        Image.fromarray(ids).save(folder / "x.png")
    (record,) = built(tmp_path / "data")["train"]
    masks = [np.asarray(Image.open(io.BytesIO(mask))) for mask in record["image/object/mask"]]
    assert [int(mask.sum()) for mask in masks] == [100, 0]
    assert record["image/object/class/text"] == ["cat", "dog"]


def test_a_panoptic_mask_of_another_size_refuses_its_image(tmp_path):
    write(tmp_path, "panoptic", [{"file_name": "x.png", "segments_info": [{"id": 1, **BOX}]}])
    Image.new("RGB", (3, 3)).save(tmp_path / "annotations" / "x.png")
    (block,) = coco(tmp_path).read(0, np.arange(2))
    assert "the mask x.png has 3x3 pixels, and the image 40x20" in block.refused[0].reason


def test_annotations_without_boxes_are_classes_of_images_and_none_are_images(tmp_path):
    write(tmp_path / "data", "labels", [{"category_id": 2}, {"category_id": 1}])
    data = built(tmp_path / "data")
    assert (data.label.feature, data.label.task) == ("image/class/label", "multi_label")
    assert next(iter(data["train"]))["image/class/text"] == ["dog", "cat"]
    write(tmp_path / "more", "image_info", [], ())
    assert built(tmp_path / "more").label is None


def test_files_of_other_kinds_beside_instances_are_counted(tmp_path):
    write(tmp_path, "instances", [BOX])
    write(tmp_path, "captions", [{"caption": "a cat"}])
    source = open_source(tmp_path)
    assert source.label == "image/object/class/label"
    assert [count for what, count in source.list(0, []).counted.items() if "captions" in what] == [2]
    assert open_source(str(tmp_path / "annotations" / "captions_*.json")).label is None


def test_several_kinds_without_instances_stop_with_a_command_for_each(tmp_path):
    write(tmp_path, "person_keypoints", [BOX | {"keypoints": [1, 2, 2]}])
    write(tmp_path, "captions", [{"caption": "a cat"}])
    with pytest.raises(FileProblem, match=r"(?s)several kinds.*captions_\*.json.*person_keypoints_\*.json"):
        open_source(tmp_path)
