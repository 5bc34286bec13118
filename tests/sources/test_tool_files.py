"""Annotations as labelling tools save them, and the layouts of other projects: built with no option."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import bushel
from bushel.cli import cli
from bushel.sources import annotated, boxes, open_source, voc

HALF = [0.25, 0.25, 0.75, 0.5]  # of an image of 40 x 20: from (10, 5) to (30, 10)


def draw(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 40, 3), np.uint8)).save(path)


def createml(folder: Path) -> None:
    place = {"x": 20, "y": 7.5, "width": 20, "height": 5}
    content = [{"image": "a.png", "annotations": [{"label": "cat", "coordinates": place}]}]
    (folder / "_annotations.createml.json").write_text(json.dumps(content))


def vott(folder: Path) -> None:
    region = {"tags": ["cat"], "boundingBox": {"left": 10, "top": 5, "width": 20, "height": 5}}
    asset = {"name": "a.png", "size": {"width": 40, "height": 20}}
    (folder / "vott.json").write_text(json.dumps({"assets": {"1": {"asset": asset, "regions": [region]}}}))


def labelme(folder: Path) -> None:
    shapes = [
        {"label": "cat", "points": [[10, 5], [30, 5], [20, 10]], "shape_type": "polygon"},
        {"label": "dog", "points": [[1, 1]], "shape_type": "point"},
    ]
    content = {"imagePath": "../elsewhere/a.png", "imageHeight": 20, "imageWidth": 40, "shapes": shapes}
    (folder / "a.json").write_text(json.dumps(content))


def labelme_xml(folder: Path) -> None:
    points = "".join(f"<pt><x>{x}</x><y>{y}</y></pt>" for x, y in ((10, 5), (30, 5), (30, 10)))
    thing = f"<object><name>cat</name><deleted>0</deleted><polygon>{points}</polygon></object>"
    gone = f"<object><name>dog</name><deleted>1</deleted><polygon>{points}</polygon></object>"
    (folder / "a.xml").write_text(f"<annotation><filename>a.png</filename>{thing}{gone}</annotation>")


def cvat(folder: Path) -> None:
    box = '<box label="cat" xtl="10" ytl="5" xbr="30" ybr="10"/><points label="dog" points="1,2"/>'
    image = f'<image id="0" name="a.png" width="40" height="20">{box}</image>'
    (folder / "annotations.xml").write_text(f"<annotations><version>1.1</version><meta/>{image}</annotations>")


def labelstudio(folder: Path) -> None:
    value = {"x": 25, "y": 25, "width": 50, "height": 25, "rotation": 0, "rectanglelabels": ["cat"]}
    task = {"data": {"image": "/data/upload/1/0a1b2c3d-a.png"}, "annotations": [{"result": [{"value": value}]}]}
    (folder / "export.json").write_text(json.dumps([task]))


def dota(folder: Path) -> None:
    (folder / "labelTxt").mkdir()
    (folder / "labelTxt" / "a.txt").write_text("imagesource:x\ngsd:0.1\n10 5 30 5 30 10 10 10 cat 0\n")


TOOLS = [createml, vott, labelme, labelme_xml, cvat, labelstudio, dota]


@pytest.mark.parametrize("write", TOOLS)
def test_a_folder_of_a_tool_is_recognised_by_what_is_in_its_files(tmp_path, write):
    draw(tmp_path / "data" / "a.png")
    draw(tmp_path / "data" / "b.png")
    write(tmp_path / "data")
    done = CliRunner().invoke(cli, ["build", str(tmp_path / "data"), str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "images without annotations, left out" in done.output
    data = bushel.open(tmp_path / "out")
    (record,) = data["train"]
    corners = [record[f"image/object/bbox/{side}"] for side in ("xmin", "ymin", "xmax", "ymax")]
    assert np.allclose(np.ravel(corners), HALF)
    assert np.ravel(record["image/object/class/text"]).tolist() == ["cat"]


@pytest.mark.parametrize("write", TOOLS)
def test_what_describes_a_source_opens_it_again(tmp_path, write):
    draw(tmp_path / "a.png")
    write(tmp_path)
    source = open_source(tmp_path)
    assert source.describe()["kind"] == "annotated"
    assert open_source(source.describe()).fingerprint() == source.fingerprint()


def test_two_tools_in_one_folder_stop_with_an_option_for_each(tmp_path):
    draw(tmp_path / "data" / "a.png")
    createml(tmp_path / "data")
    cvat(tmp_path / "data")
    done = CliRunner().invoke(cli, ["build", str(tmp_path / "data"), str(tmp_path / "out")])
    assert done.exit_code == 2
    assert "annotations of two tools" in done.output
    assert "tool=createml" in done.output
    assert "tool=cvat" in done.output
    chosen = ["--kind", "annotated", "--set", "tool=cvat"]
    assert CliRunner().invoke(cli, ["build", str(tmp_path / "data"), str(tmp_path / "out"), *chosen]).exit_code == 0


def test_what_has_no_area_or_no_label_is_counted(tmp_path):
    draw(tmp_path / "a.png")
    shapes = '<polyline label="a" points="1,2;3,4"/><polygon label="" points="1,2;3,4;5,6"/>'
    (tmp_path / "a.xml").write_text(
        f'<annotations><image name="a.png" width="40" height="20">{shapes}</image></annotations>'
    )
    counted = annotated(tmp_path).list(0, []).counted
    assert counted["shapes that are a polyline and have no area, left out"] == 1
    assert counted["shapes without a label, left out"] == 1


def test_a_damaged_file_refuses_its_image_and_no_other(tmp_path):
    for name in ("a", "b"):
        draw(tmp_path / f"{name}.png")
    labelme(tmp_path)
    (tmp_path / "b.json").write_text('{"imagePath": "b.png", "shapes": [{"points": "x"}]}')
    (block,) = annotated(tmp_path).read(0, np.arange(2))
    assert len(block.rows) == 1
    assert "b.json: cannot be read" in block.refused[0].reason


def test_a_video_of_cvat_is_refused_by_name(tmp_path):
    draw(tmp_path / "a.png")
    (tmp_path / "a.xml").write_text('<annotations><meta/><track id="0" label="cat"></track></annotations>')
    (block,) = annotated(tmp_path).read(0, np.arange(1))
    assert "CVAT for images" in block.refused[0].reason


def test_createml_whose_boxes_only_fit_as_corners_is_read_so_and_said(tmp_path):
    draw(tmp_path / "a.png")
    place = {"x": 0, "y": 0, "width": 40, "height": 20}
    content = [{"image": "a.png", "annotations": [{"label": "cat", "coordinates": place}]}]
    (tmp_path / "x.json").write_text(json.dumps(content))
    source = annotated(tmp_path)
    assert source.annotated.boxes.tolist() == [[0, 0, 40, 20]]
    assert any("are a corner" in what for what in source.list(0, []).counted)


BOX = "<bndbox><xmin>10</xmin><ymin>5</ymin><xmax>30</xmax><ymax>10</ymax></bndbox>"
XML = f"<annotation><filename>{{}}</filename><object><name>cat</name>{BOX}</object></annotation>"


def test_voc_in_folders_of_splits_is_read_as_these_splits(tmp_path):
    for split in ("train", "valid"):
        draw(tmp_path / split / "a.png")
        (tmp_path / split / "a.xml").write_text(XML.format("a.png"))
    source = open_source(tmp_path)
    assert source.describe()["kind"] == "voc"
    assert source.list(0, ["split"]).columns["split"].to_list() == [b"train", b"val"]


def test_voc_images_without_xml_are_counted_and_those_that_imagesets_lists_are_kept(tmp_path):
    for name in ("a", "b", "c"):
        draw(tmp_path / "JPEGImages" / f"{name}.png")
    (tmp_path / "Annotations").mkdir()
    (tmp_path / "Annotations" / "a.xml").write_text(XML.format("a.png"))
    (tmp_path / "ImageSets" / "Main").mkdir(parents=True)
    (tmp_path / "ImageSets" / "Main" / "train.txt").write_text("a\n")
    (tmp_path / "ImageSets" / "Main" / "test.txt").write_text("b\n")
    listing = voc(tmp_path).list(0, ["split"])
    assert listing.columns["split"].to_list() == [b"train", b"test"]
    assert listing.counted["images without XML, left out"] == 1
    assert listing.counted["images without XML that ImageSets lists, taken as without objects"] == 1


@pytest.mark.parametrize("labels", ["Annotations", "labels", ""])
def test_yolo_text_is_found_beside_images_and_under_other_names(tmp_path, labels):
    place = "Images/" if labels == "Annotations" else "images/" if labels else ""
    draw(tmp_path / f"{place}a.png")
    (tmp_path / labels).mkdir(exist_ok=True)
    (tmp_path / labels / "a.txt").write_text("2 0.5 0.375 0.5 0.25\n")
    source = open_source(tmp_path)
    assert source.describe()["kind"] == "yolo"
    assert np.allclose(source.annotated.boxes, [HALF])


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("image_name,label_name,x1,y1,x2,y2", ["a.png,cat,10,5,30,10", "b.png,dog,1,2,3,4"]),
        ("image_name,label_name,x1,y1,w,h", ["a.png,cat,10,5,20,5", "b.png,dog,1,2,2,2"]),
        ("image,label,bbox", ['a.png,cat,"[10, 5, 30, 10]"', 'b.png,dog,"5 2 39 19"']),
    ],
)
def test_a_table_of_boxes_beside_images_is_read_in_several_forms(tmp_path, header, rows):
    for name in ("a", "b", "c"):
        draw(tmp_path / "images" / f"{name}.png")
    (tmp_path / "ann.csv").write_text("\n".join([header, *rows, ""]))
    source = open_source(tmp_path)
    assert source.describe()["kind"] == "boxes"
    assert source.annotated.boxes[0].tolist() == [10, 5, 30, 10]
    assert source.list(0, []).counted["images that the table does not name, left out"] == 1


def test_four_numbers_that_may_be_corners_or_a_size_stop_with_both(tmp_path):
    draw(tmp_path / "a.png")
    (tmp_path / "ann.csv").write_text('image,label,bbox\na.png,cat,"1,2,5,6"\n')
    done = CliRunner().invoke(cli, ["build", str(tmp_path), str(tmp_path / "out")])
    assert done.exit_code == 2
    assert "corners=xyxy" in done.output
    assert "corners=xywh" in done.output
    assert boxes(tmp_path / "ann.csv", corners="xywh").annotated.boxes.tolist() == [[1, 2, 6, 8]]


def test_tables_of_boxes_may_be_splits_or_agree_but_not_differ(tmp_path):
    for name in ("a", "b"):
        draw(tmp_path / f"{name}.png")
    header = "filename,xmin,ymin,xmax,ymax,class\n"
    (tmp_path / "train-export.csv").write_text(f"{header}a.png,1,2,3,4,cat\n")
    (tmp_path / "test-export.csv").write_text(f"{header}b.png,1,2,3,4,cat\n")
    assert sorted(open_source(tmp_path).list(0, ["split"]).columns["split"].to_list()) == [b"test", b"train"]
    (tmp_path / "test-export.csv").write_text(f"{header}a.png,1,2,3,4,cat\n")
    assert len(open_source(tmp_path).annotated.boxes) == 1
    (tmp_path / "test-export.csv").write_text(f"{header}a.png,1,2,9,9,cat\n")
    done = CliRunner().invoke(cli, ["build", str(tmp_path), str(tmp_path / "out")])
    assert (done.exit_code, "the tables of boxes differ" in done.output) == (2, True)
