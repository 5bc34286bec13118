"""Images with boxes: COCO, Pascal VOC, YOLO and tables, with real files and hostile ones."""

import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gather import keys_of, listed, read_all
from PIL import Image

import bushel
from bushel import sources
from bushel.errors import FileProblem
from bushel.pixels.codecs import turn_pixels
from bushel.sources.detection.annotations import turn_boxes
from bushel.sources.opening import kind_of


def photo(path: Path, width: int = 60, height: int = 40, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    shades = np.linspace(0, 255, width * height * 3).reshape(height, width, 3).astype(np.uint8)
    Image.fromarray(shades).save(path, **options)


def coco_file(folder: Path, *, boxes: Any = ((6, 4, 12, 8),), **more: Any) -> Path:
    photo(folder / "images" / "a.jpg")
    photo(folder / "images" / "b.jpg")
    objects = [
        {"id": n, "image_id": 7, "category_id": 18, "bbox": list(box), "iscrowd": 0, "area": 50.5, **more}
        for n, box in enumerate(boxes)
    ]
    document = {
        "info": {},
        "images": [
            {"id": 7, "file_name": "a.jpg", "width": 60, "height": 40},
            {"id": 8, "file_name": "b.jpg", "width": 60, "height": 40},
        ],
        "annotations": objects,
        "categories": [{"id": 18, "name": "dog"}, {"id": 17, "name": "cat"}],
    }
    path = folder / "annotations.json"
    path.write_text(json.dumps(document))
    return path


def voc_file(
    folder: Path, objects: str, *, stem: str = "1", size: str = "<width>60</width><height>40</height>"
) -> None:
    photo(folder / "JPEGImages" / f"{stem}.jpg")
    (folder / "Annotations").mkdir(parents=True, exist_ok=True)
    text = f"<annotation><filename>{stem}.jpg</filename><size>{size}<depth>3</depth></size>{objects}</annotation>"
    (folder / "Annotations" / f"{stem}.xml").write_text(text)


DOG = """<object><name>dog</name><pose>Left</pose><truncated>1</truncated><difficult>0</difficult>
<bndbox><xmin>6</xmin><ymin>4</ymin><xmax>18</xmax><ymax>12</ymax></bndbox></object>"""


def test_coco_has_the_features_of_the_object_detection_api(tmp_path: Path) -> None:
    source = sources.coco(coco_file(tmp_path))
    columns, refused = read_all(source)
    assert not refused
    assert keys_of(source) == ["a.jpg", "b.jpg"]
    assert columns["image/encoded"][0] == (tmp_path / "images" / "a.jpg").read_bytes()
    assert columns["image/format"] == [b"jpeg", b"jpeg"]
    assert columns["image/source_id"] == [b"7", b"8"]
    assert (columns["image/height"], columns["image/width"]) == ([40, 40], [60, 60])
    corners = [columns[f"image/object/bbox/{side}"][0][0] for side in ("xmin", "ymin", "xmax", "ymax")]
    assert corners == pytest.approx([0.1, 0.1, 0.3, 0.3])
    assert columns["image/object/class/label"] == [[18], []]
    assert columns["image/object/class/text"] == [[b"dog"], []]
    assert columns["image/object/is_crowd"] == [[0], []]
    assert columns["image/object/area"] == [[50.5], []]
    assert set(columns) == set(source.schema())


def test_tensorflow_parses_the_records_as_the_api_does(tmp_path: Path) -> None:
    import tensorflow as tf

    bushel.build(sources.coco(coco_file(tmp_path)), tmp_path / "data", order="source")
    (record, empty) = tf.data.TFRecordDataset(str(tmp_path / "data" / "train-00000-of-00001.tfrecord"))
    spec = {
        "image/encoded": tf.io.FixedLenFeature((), tf.string),
        "image/height": tf.io.FixedLenFeature((), tf.int64),
        "image/object/bbox/xmin": tf.io.VarLenFeature(tf.float32),
        "image/object/class/label": tf.io.VarLenFeature(tf.int64),
        "image/object/class/text": tf.io.VarLenFeature(tf.string),
    }
    parsed = tf.io.parse_single_example(record, spec)
    assert tf.io.decode_jpeg(parsed["image/encoded"]).shape == (40, 60, 3)
    assert parsed["image/object/bbox/xmin"].values.numpy() == pytest.approx([0.1])
    assert parsed["image/object/class/text"].values.numpy().tolist() == [b"dog"]
    assert tf.io.parse_single_example(empty, spec)["image/object/class/label"].values.shape == (0,)


def test_category_zero_moves_all_up_since_it_would_be_the_background(tmp_path: Path) -> None:
    path = coco_file(tmp_path)
    path.write_text(path.read_text().replace('"id": 17, "name"', '"id": 0, "name"'))
    source = sources.coco(path)
    assert source.describe()["classes"] == {"cat": 1, "dog": 19}
    assert source.list(0, []).counted == {"classes numbered one higher, since 0 is the background": 2}


@pytest.mark.parametrize(
    ("box", "why"),
    [
        ((50, 4, 20, 8), "box 0 of 1 (0.833333, 0.1) to (1.16667, 0.3), in shares of the image, is outside of it"),
        (
            (6, 4, 0, 8),
            "box 0 of 1 (0.1, 0.1) to (0.1, 0.3), in shares of the image, has its corners the wrong way round, "
            "or no area",
        ),
        ((-70, 4, 12, 8), "box 0 of 1 (-1.16667, 0.1) to (-0.966667, 0.3), in shares of the image, is outside of it"),
    ],
)
def test_an_impossible_box_refuses_its_image_and_says_why(tmp_path: Path, box: Any, why: str) -> None:
    columns, refused = read_all(sources.coco(coco_file(tmp_path, boxes=[box])))
    assert [(bad.row, bad.stage, bad.reason) for bad in refused] == [(0, "schema", why)]
    assert columns["image/filename"] == [b"b.jpg"]


def test_clipped_boxes_are_counted_and_those_with_nothing_left_go(tmp_path: Path) -> None:
    path = coco_file(tmp_path, boxes=[(50, 4, 20, 8), (6, 4, 12, 8), (90, 4, 5, 5), (6, 4, -3, 5)])
    source = sources.coco(path, bad_boxes="clip")
    (block,) = source.read(0, None)
    assert block.counted == {"boxes clipped to their image": 1, "impossible boxes left out": 2}
    assert block.columns["image/object/bbox/xmax"][0].tolist() == pytest.approx([1.0, 0.3])
    assert block.columns["image/object/area"][0].tolist() == [50.5, 50.5]


@pytest.mark.parametrize("compressed", [False, True])
def test_masks_are_pngs_of_polygons_or_run_lengths(tmp_path: Path, compressed: bool) -> None:
    mask = np.zeros((40, 60), np.uint8)
    mask[4:12, 6:18] = 1
    runs = {"size": [40, 60], "counts": _compress(_runs(mask)) if compressed else _runs(mask)}
    source = sources.coco(coco_file(tmp_path, segmentation=runs), masks=True)
    columns, _ = read_all(source)
    found = np.asarray(Image.open(io.BytesIO(columns["image/object/mask"][0][0])))
    assert (found == mask).all()
    polygons = sources.coco(coco_file(tmp_path, segmentation=[[6, 4, 17, 4, 17, 11, 6, 11]]), masks=True)
    found = np.asarray(Image.open(io.BytesIO(read_all(polygons)[0]["image/object/mask"][0][0])))
    assert (found == mask).all()


def _runs(mask: Any) -> list[int]:
    flat = mask.T.reshape(-1)
    edges = np.flatnonzero(np.diff(flat)) + 1
    return np.diff([0, *edges, len(flat)]).tolist()


def _compress(runs: list[int]) -> str:
    """As the COCO API writes run lengths."""
    out = ""
    for number, run in enumerate(runs):
        value = run - runs[number - 2] if number > 2 else run
        more = True
        while more:
            bits = value & 31
            value >>= 5
            more = value != -1 if bits & 16 else value != 0
            out += chr((bits | 32 if more else bits) + 48)
    return out


@pytest.mark.parametrize(
    "segmentation", [{"size": [40, 60], "counts": [5]}, [[1, 2]], 7, {"counts": "\x7f", "size": []}]
)
def test_a_mask_that_is_none_refuses_its_image(tmp_path: Path, segmentation: Any) -> None:
    _, refused = read_all(sources.coco(coco_file(tmp_path, segmentation=segmentation), masks=True))
    assert [bad.row for bad in refused] == [0]
    assert "segmentation" in refused[0].reason


def test_annotations_that_name_a_missing_image_refuse_it_alone(tmp_path: Path) -> None:
    path = coco_file(tmp_path)
    (tmp_path / "images" / "b.jpg").unlink()
    _, refused = read_all(sources.coco(path))
    assert [(bad.stage, bad.reason) for bad in refused] == [
        ("read", f"the image {tmp_path / 'images' / 'b.jpg'}: no such file or directory")
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"images": [{"id": 1}], "annotations": [], "categories": []}', "missing required field `file_name`"),
        ('{"images": [', "input data was truncated"),
        ('{"images": 3}', "expected `array`, got `int`"),
    ],
)
def test_a_file_that_is_not_coco_is_one_clear_line(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(FileProblem, match="is not COCO's JSON: ") as caught:
        sources.coco(tmp_path / "x.json")
    assert why in str(caught.value)


def test_images_nowhere_near_the_annotations_are_asked_for(tmp_path: Path) -> None:
    path = coco_file(tmp_path / "far")
    path = path.rename(tmp_path / "annotations.json")
    with pytest.raises(FileProblem, match="the image a.jpg was not found near it"):
        sources.coco(path)
    assert keys_of(sources.coco(path, tmp_path / "far" / "images")) == ["a.jpg", "b.jpg"]


def test_several_coco_files_are_splits(tmp_path: Path) -> None:
    one = coco_file(tmp_path).rename(tmp_path / "instances_train.json")
    two = tmp_path / "instances_val.json"
    two.write_text(one.read_text().replace("a.jpg", "c.jpg").replace("b.jpg", "d.jpg"))
    source = sources.coco([one, two])
    assert source.split == "split"
    assert listed(source, "split") == [b"train", b"train", b"val", b"val"]


def test_pascal_voc_has_difficult_truncated_and_view(tmp_path: Path) -> None:
    voc_file(tmp_path, DOG)
    voc_file(tmp_path, DOG.replace("dog", "cat"), stem="2")
    (tmp_path / "ImageSets" / "Main").mkdir(parents=True)
    (tmp_path / "ImageSets" / "Main" / "train.txt").write_text("1\n")
    (tmp_path / "ImageSets" / "Main" / "val.txt").write_text("2\n")
    source = sources.voc(tmp_path)
    columns, refused = read_all(source)
    assert not refused
    assert columns["image/object/class/label"] == [[2], [1]]
    assert columns["image/object/truncated"] == [[1], [1]]
    assert columns["image/object/difficult"] == [[0], [0]]
    assert columns["image/object/view"] == [[b"Left"], [b"Left"]]
    assert columns["image/object/bbox/ymax"][0] == pytest.approx([0.3])
    assert listed(source, "split") == [b"train", b"val"]


BOMB = """<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY lol "lol"><!ENTITY lol2 "&lol;&lol;&lol;&lol;">]>
<annotation><filename>&lol2;</filename></annotation>"""
OTHER_FILE = """<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>
<annotation><filename>&x;</filename></annotation>"""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BOMB, "1.xml: the XML declares an entity, 'lol', which is never resolved"),
        (OTHER_FILE, "1.xml: the XML declares an entity, 'x', which is never resolved"),
        ("<annotation><object>", "1.xml: the XML is damaged: no element found: line 1, column 20"),
        ("", "1.xml: the XML is damaged: no element found: line 1, column 0"),
        ("<html></html>", "1.xml: its XML is a 'html', not an 'annotation'"),
        ("<annotation>" + "<a>" * 60 + "</a>" * 60 + "</annotation>", "1.xml: the XML is more than 50 tags deep"),
        ("<annotation><object><name>x</name></object></annotation>", "1.xml: object 0 has no box"),
        (
            "<annotation><object><name>x</name><bndbox><xmin>a</xmin></bndbox></object></annotation>",
            "1.xml: object 0 has a box whose corners are not numbers",
        ),
    ],
)
def test_hostile_xml_refuses_its_image_alone(tmp_path: Path, text: str, why: str) -> None:
    voc_file(tmp_path, DOG)
    voc_file(tmp_path, DOG, stem="2")
    (tmp_path / "Annotations" / "1.xml").write_text(text)
    columns, refused = read_all(sources.voc(tmp_path))
    assert [(bad.row, bad.stage, bad.reason) for bad in refused] == [(0, "read", why)]
    assert columns["image/object/class/text"] == [[b"dog"]]


def test_annotations_of_another_size_are_refused(tmp_path: Path) -> None:
    voc_file(tmp_path, DOG, size="<width>30</width><height>40</height>")
    _, refused = read_all(sources.voc(tmp_path))
    assert refused[0].reason == "its annotations are of an image of 30x40, and it has 60x40"


def test_yolo_names_splits_polygons_and_images_without_objects(tmp_path: Path) -> None:
    for split, name in (("train", "a"), ("train", "b"), ("val", "c")):
        photo(tmp_path / "images" / split / f"{name}.png")
    (tmp_path / "labels" / "train").mkdir(parents=True)
    (tmp_path / "labels" / "train" / "a.txt").write_text("1 0.5 0.5 0.2 0.4\n0 0.1 0.1 0.3 0.1 0.3 0.5\n\n")
    (tmp_path / "labels" / "train" / "gone.txt").write_text("1 0.5 0.5 0.2 0.4\n")
    (tmp_path / "data.yaml").write_text("train: x\nnc: 2\nnames:\n  0: cat  # a comment\n  1: 'dog'\n")
    assert kind_of(tmp_path) == "yolo"
    source = sources.yolo(tmp_path)
    columns, refused = read_all(source)
    assert not refused
    assert columns["image/object/class/text"] == [[b"dog", b"cat"], [], []]
    assert columns["image/object/class/label"] == [[2, 1], [], []]
    assert columns["image/object/bbox/xmin"][0] == pytest.approx([0.4, 0.1])
    assert columns["image/object/bbox/ymax"][0] == pytest.approx([0.7, 0.5])
    assert listed(source, "split") == [b"train", b"train", b"val"]
    assert source.list(0, []).counted == {
        "polygons taken as the boxes round them": 1,
        "images without a label file, taken as without objects": 2,
        "label files without an image": 1,
    }


@pytest.mark.parametrize("names", ["names: [cat, 'dog']", "names:\n- cat\n- dog\n", "names:\n  0: cat\n  1: dog"])
def test_names_of_classes_in_all_the_ways_yaml_has(tmp_path: Path, names: str) -> None:
    photo(tmp_path / "a.jpg")
    (tmp_path / "a.txt").write_text("1 0.5 0.5 0.2 0.4")
    (tmp_path / "data.yaml").write_text(f"nc: 2\n{names}\n")
    assert sources.yolo(tmp_path).describe()["classes"] == {"cat": 1, "dog": 2}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"0 0.5 0.5 0.2\n", "a.txt: line 1 has 3 numbers after its class, not 4: '0 0.5 0.5 0.2'"),
        (b"\n\ncat 0.5 0.5 1 1", "a.txt: line 3 is not a class and numbers: 'cat 0.5 0.5 1 1'"),
        (b"7 0.5 0.5 0.2 0.2", "a.txt: line 1 has the class 7, and there are 1 names"),
        (b"\xff\xfe\x00\x80", "a.txt: is not text"),
        (b"0 nan 0.5 0.2 0.2", "box 0 of 1 (nan, 0.4) to (nan, 0.6), in shares of the image, is not finite"),
        (b"0 1e308 1e308 1e308 1e308", None),
    ],
)
def test_garbage_in_yolo_text_refuses_its_image_alone(tmp_path: Path, text: bytes, why: str | None) -> None:
    photo(tmp_path / "a.jpg")
    photo(tmp_path / "b.jpg")
    (tmp_path / "a.txt").write_bytes(text)
    (tmp_path / "classes.txt").write_text("cat\n")
    columns, refused = read_all(sources.yolo(tmp_path))
    assert [bad.row for bad in refused] == [0]
    assert why is None or refused[0].reason == why
    assert columns["image/filename"] == [b"b.jpg"]


def test_a_table_of_boxes_by_its_usual_names(tmp_path: Path) -> None:
    photo(tmp_path / "a.jpg")
    photo(tmp_path / "b.jpg")
    rows = ["filename,width,height,class,xmin,ymin,xmax,ymax", "a.jpg,60,40,dog,6,4,18,12", "a.jpg,60,40,cat,0,0,60,40"]
    (tmp_path / "boxes.csv").write_text("\n".join([*rows, "b.jpg,,,,,,,"]))
    assert kind_of(tmp_path / "boxes.csv") == "boxes"
    columns, refused = read_all(sources.boxes(tmp_path / "boxes.csv"))
    assert not refused
    assert columns["image/object/class/text"] == [[b"dog", b"cat"], []]
    assert columns["image/object/class/label"] == [[2, 1], []]
    assert columns["image/object/bbox/xmax"][0] == pytest.approx([0.3, 1.0])


def test_a_table_of_shares_with_names_of_its_own(tmp_path: Path) -> None:
    photo(tmp_path / "a.jpg")
    (tmp_path / "b.csv").write_text("ImageID,LabelName,XMin,XMax,YMin,YMax\na,dog,0.1,0.3,0.1,0.2\n")
    columns, _ = read_all(sources.boxes(tmp_path / "b.csv"))
    assert columns["image/filename"] == [b"a.jpg"]
    assert columns["image/object/bbox/xmax"][0] == pytest.approx([0.3])
    (tmp_path / "c.csv").write_text("photo,what,x1,x2,y1,y2\na.jpg,dog,6,18,4,12\n")
    source = sources.boxes(tmp_path / "c.csv", columns={"filename": "photo", "class": "what"})
    assert read_all(source)[0]["image/object/bbox/xmax"][0] == pytest.approx([0.3])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("filename,xmin,ymin,xmax,class\na.jpg,1,2,3,dog\n", "no column holds the ymax of boxes"),
        ("filename,xmin,ymin,xmax,ymax,class\na.jpg,1,2,x,4,dog\n", "row 0: xmax must be a number, got 'x'"),
        ("filename,xmin,ymin,xmax,ymax,class\n,1,2,3,4,dog\n", "row 0 does not name its image"),
    ],
)
def test_a_table_with_wrong_columns_is_one_clear_line(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "b.csv").write_text(text)
    with pytest.raises(FileProblem) as caught:
        sources.boxes(tmp_path / "b.csv")
    assert why in str(caught.value)


def test_a_row_without_a_corner_refuses_its_image(tmp_path: Path) -> None:
    photo(tmp_path / "a.jpg")
    (tmp_path / "b.csv").write_text("filename,xmin,ymin,xmax,ymax,class\na.jpg,1,2,,4,dog\n")
    _, refused = read_all(sources.boxes(tmp_path / "b.csv"))
    assert refused[0].reason == "row 0 has a box without all four corners"


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("is_of_upright", [False, True])
def test_boxes_turn_with_an_image_that_exif_turns(tmp_path: Path, orientation: int, is_of_upright: bool) -> None:
    """A white rectangle is still in its box, whichever of the two sizes the annotations are of."""
    pixels = np.zeros((40, 60, 3), np.uint8)
    pixels[8:16, 12:36] = 255
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    box = np.array([[12 / 60, 8 / 40, 36 / 60, 16 / 40]])
    if is_of_upright or orientation in (2, 3, 4):
        box = turn_boxes(box, orientation)
    height, width = turn_pixels(pixels, orientation).shape[:2] if is_of_upright else (40, 60)
    corners = (box * [width, height, width, height])[0]
    rows = [
        "filename,width,height,class,xmin,ymin,xmax,ymax",
        f"a.png,{width},{height},x," + ",".join(map(str, corners)),
    ]
    (tmp_path / "b.csv").write_text("\n".join(rows))
    columns, refused = read_all(sources.boxes(tmp_path / "b.csv"))
    assert not refused
    upright = np.asarray(Image.open(io.BytesIO(columns["image/encoded"][0])))
    assert upright.shape[:2] == (columns["image/height"][0], columns["image/width"][0])
    x1, y1, x2, y2 = (columns[f"image/object/bbox/{side}"][0][0] for side in ("xmin", "ymin", "xmax", "ymax"))
    down, across = upright.shape[:2]
    inside = upright[round(y1 * down) : round(y2 * down), round(x1 * across) : round(x2 * across)]
    assert (inside == 255).all()
    assert inside.sum() == pixels.sum()


def test_workers_recipes_and_pickles_give_the_same(tmp_path: Path) -> None:
    path = coco_file(tmp_path, segmentation=[[6, 4, 17, 4, 17, 11, 6, 11]])
    source = sources.coco(path, masks=True)
    again = pickle.loads(pickle.dumps(source))
    assert read_all(again)[0] == read_all(source)[0]
    assert again.fingerprint() == source.fingerprint()
    opened = sources.open_source(source.describe())
    assert read_all(opened)[0] == read_all(source)[0]
    assert kind_of(path) == "coco"
    digests = set()
    for workers in (1, 2):
        built = bushel.build(source, tmp_path / f"out{workers}", run=bushel.Run(workers=workers))
        digests.add(built.manifest.splits["train"].shards[0].sha256)
    assert len(digests) == 1
    assert built.manifest.label.feature == "image/object/class/label"


def coco_download(folder: Path) -> Path:
    """COCO as it is downloaded: images by split, and several files of annotations of each."""
    (folder / "annotations").mkdir(parents=True)
    for number, split in enumerate(("train2017", "val2017")):
        photo(folder / split / "000000000009.jpg")
        image = {"id": number, "file_name": "000000000009.jpg", "width": 60, "height": 40}
        box = {"id": 1, "image_id": number, "category_id": 1, "bbox": [6, 4, 12, 8]}
        document = {"info": {}, "images": [image], "annotations": [box], "categories": [{"id": 1, "name": "cat"}]}
        (folder / "annotations" / f"instances_{split}.json").write_text(json.dumps(document))
        captions = {"info": {}, "images": [image], "annotations": [{"image_id": number, "caption": "a cat"}]}
        (folder / "annotations" / f"captions_{split}.json").write_text(json.dumps(captions))
    return folder


def test_the_layout_of_cocos_own_download_is_boxes_with_its_splits(tmp_path: Path) -> None:
    source = sources.open_source(coco_download(tmp_path / "coco"))
    assert isinstance(source, sources.DetectionSource)
    assert keys_of(source) == ["train2017/000000000009.jpg", "val2017/000000000009.jpg"]
    assert source.list(0, ["split"]).columns["split"].to_list() == [b"train", b"val"]
    columns, refused = read_all(source)
    assert not refused
    assert columns["image/object/class/text"] == [[b"cat"], [b"cat"]]
    assert source.describe()["path"] == str(tmp_path / "coco")
    again = sources.open_source(source.describe())
    assert again.fingerprint() == source.fingerprint()


def test_a_pattern_of_annotations_finds_the_images_of_each_file(tmp_path: Path) -> None:
    folder = coco_download(tmp_path)
    _, refused = read_all(sources.coco(str(folder / "annotations" / "instances_*.json")))
    assert not refused


def test_a_folder_with_annotations_beside_its_images_is_boxes(tmp_path: Path) -> None:
    coco_file(tmp_path / "pets")
    source = sources.open_source(tmp_path / "pets")
    assert source.describe()["kind"] == "coco"
    assert keys_of(source) == ["a.jpg", "b.jpg"]


def test_annotations_in_the_folder_of_each_split_are_splits(tmp_path: Path) -> None:
    for split in ("train", "valid"):
        path = coco_file(tmp_path / split)
        path.rename(path.with_name("_annotations.coco.json"))
    source = sources.open_source(tmp_path)
    assert keys_of(source) == [f"{split}/images/{name}.jpg" for split in ("train", "valid") for name in "ab"]
    assert source.list(0, ["split"]).columns["split"].to_list() == [b"train"] * 2 + [b"val"] * 2
