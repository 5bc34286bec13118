"""Annotations in the files of COCO (JSON), Pascal VOC (XML, of which no entity is ever resolved) and YOLO (text)."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any
from xml.parsers import expat

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.splits import split_named, split_of_name
from bushel.errors import FileProblem
from bushel.pixels.codecs import decode_pixels
from bushel.pixels.headers import BadImage
from bushel.sources.detection.annotations import KEYPOINTS, Annotations, Gathering, Holds
from bushel.sources.detection.xml_files import MOST_BYTES, Tag, parse_xml
from bushel.sources.folders import files_of, is_file_of, walk
from bushel.storage import (
    as_path,
    first_in,
    open_named,
    open_to_read,
    paths_below,
    presence,
    read_each,
    read_named,
    sibling,
)
from bushel.storage.file_kinds import suffixes_of

__all__ = [
    "coco_files",
    "coco_files_left",
    "encode_mask",
    "is_coco",
    "is_voc",
    "is_yolo",
    "read_coco",
    "read_voc",
    "read_yolo",
]


_FEATURES = {"is_crowd": "image/object/is_crowd", "area": "image/object/area", "mask": "image/object/mask"} | {
    "keypoints": KEYPOINTS
}
_LISTS = re.compile(rb'"(images|annotations|categories)"\s*:\s*\[')
_LOOKED_AT = 1 << 16
_LOOKED_FOR = 20  # images that are tried to find the folder of all
_MOST_FILES = 100  # that are inspected to tell what a folder is
# What COCO's own files hold, by the beginning of their names; the first that is there is read.
_PARTS = ("instances", "", "person_keypoints", "stuff", "panoptic", "captions", "labels", "image_info")
_OF_SPLIT = "_annotations.coco.json"  # beside its images, as Roboflow exports it


class _Image(msgspec.Struct):
    id: int | str
    file_name: str
    width: int = 0
    height: int = 0


class _Segment(msgspec.Struct):
    id: int
    category_id: int
    bbox: list[float] | None = None
    iscrowd: int = 0
    area: float | None = None


class _Object(msgspec.Struct):
    image_id: int | str
    category_id: int = 0
    bbox: list[float] | None = None
    iscrowd: int = 0
    area: float | None = None
    segmentation: msgspec.Raw = msgspec.Raw(b"")
    caption: str | None = None
    keypoints: list[float] | None = None
    segments_info: list[_Segment] | None = None  # of panoptic annotations: one entry for a whole image
    file_name: str = ""


class _Category(msgspec.Struct):
    id: int
    name: str


class _Coco(msgspec.Struct):
    images: list[_Image]
    annotations: list[_Object] = []
    categories: list[_Category] = []


def is_coco(path: Path) -> bool:
    """Whether a JSON file is one document with COCO's lists, judging by its beginning."""
    with open_named(path) as file:
        head = file.read(_LOOKED_AT)
    return head.lstrip()[:1] == b"{" and _LISTS.search(head) is not None and b"\n{" not in head


def coco_files(folder: Path) -> list[Path]:
    """The files of one kind in a folder: beside its images, under `annotations`, or one in the folder of each split.

    Boxes come first; what there is besides (`coco_files_left`) is left out.
    """
    parts = _coco_parts(folder)
    if "instances" not in parts and "" not in parts and len(parts) > 1:
        patterns = [paths[0].parent / f"{part}_*.json" for part, paths in parts.items()]
        raise FileProblem(
            folder,
            f"COCO's files here are of several kinds, and none is of instances: {', '.join(parts)}",
            help=["Choose one: " + " or ".join(f"`bushel build '{pattern}' OUT`" for pattern in patterns[:3])],
        )
    return next((parts[part] for part in _PARTS if part in parts), [])


def coco_files_left(folder: Path, files: Sequence[str]) -> dict[str, int]:
    """How many files of other kinds there are beside those that are read, by kind."""
    left = {part: [path for path in paths if str(path) not in files] for part, paths in _coco_parts(folder).items()}
    return {
        f"files of {part or 'other JSON'}, left out (to read them, build from {part}_*.json)": len(paths)
        for part, paths in left.items()
        if paths
    }


def _coco_parts(folder: Path) -> dict[str, list[Path]]:
    """COCO's files by what they hold, by their names."""
    places = (folder, folder / "annotations")
    found = [path for place in places for path in first_in(place, ".json")[:_MOST_FILES] if path.name[0] != "."]
    found += [path for split in ("train", "valid", "val", "test") if (path := folder / split / _OF_SPLIT).is_file()]
    parts: dict[str, list[Path]] = {}
    for path in filter(is_coco, found):
        parts.setdefault(next((part for part in _PARTS if part and path.name.startswith(part)), ""), []).append(path)
    return parts


def read_coco(
    paths: Sequence[str], images: Path | None, classes: Mapping[str, int] | None, *, masks: bool
) -> tuple[Annotations, Path]:
    """Read annotation files, and find the folder of the images; several files whose names say so are splits."""
    documents = [_decode(as_path(path)) for path in paths]
    names = _class_names(documents, paths)
    holds = _what_of(documents, paths)
    shift = int(any(number == 0 for number in names))
    is_panoptic = any(found.segments_info is not None for document in documents for found in document.annotations)
    is_posed = any(found.keypoints is not None for document in documents for found in document.annotations)
    more: dict[str, type] = {"is_crowd": int, "area": float} if holds == "objects" else {}
    more |= {"mask": bytes} if (masks and holds == "objects") or is_panoptic else {}
    more |= {"keypoints": list} if is_posed and holds == "objects" else {}
    gathering = Gathering("pixels", more, holds)
    splits = [split_named(Path(path).stem) or split_named(Path(path).parent.name) or "" for path in paths]
    is_split = len(paths) > 1 and all(splits)
    root, folders = _image_folders(paths, documents, images)
    for path, document, split, folder in zip(paths, documents, splits, folders, strict=True):
        reading = _Reading(gathering, names, path, folder, split if is_split else "")
        reading.gather(document)
    if shift and classes is None:
        gathering.counted["classes numbered one higher, since 0 is the background"] = len(names)
    known = dict(classes) if classes is not None else {name: number + shift for number, name in names.items()}
    return gathering.finish(known, _FEATURES), root


def _what_of(documents: Sequence[_Coco], paths: Sequence[str]) -> Holds:
    """What the annotations are about, by their fields: captions, objects, or classes of whole images."""
    found = [one for document in documents for one in document.annotations]
    captions = sum(one.caption is not None for one in found)
    if captions and captions < len(found):
        raise FileProblem(paths[0], "some of its annotations are captions, and some are not")
    if captions:
        return "captions"
    if not found and not any(document.categories for document in documents):
        return "images"
    has_place = any(one.bbox is not None or one.segments_info is not None or one.segmentation for one in found)
    return "objects" if has_place or not found else "classes"


def _image_folders(paths: Sequence[str], documents: Sequence[_Coco], images: Path | None) -> tuple[Path, list[str]]:
    """The folder of all images, and where in it those of each file are."""
    if not any(document.images for document in documents):
        raise FileProblem(paths[0], "lists no images")
    if images is not None:
        return images, [""] * len(paths)
    places = [_find_images(as_path(path), document) for path, document in zip(paths, documents, strict=True)]
    found = [place for place in places if place is not None]
    if not found:
        first = next(document.images[0].file_name for document in documents if document.images)
        help = ["Name the folder of the images: --images DIR"]
        raise FileProblem(paths[0], f"the image {first} was not found near it", help=help)
    root = next(
        above
        for above in (found[0], *found[0].parents)
        if all(above == place or above in place.parents for place in found)
    )
    # The images of a file for which there is no folder are looked for beside the others, and refused one by one.
    return root, ["" if place in (None, root) else place.relative_to(root).as_posix() + "/" for place in places]


def _decode(path: Path) -> _Coco:
    try:
        with open_to_read(path) as file:
            return msgspec.json.decode(file.read(), type=_Coco)
    except msgspec.MsgspecError as error:
        what = str(error)
        raise FileProblem(path, f"is not COCO's JSON: {what[0].lower()}{what[1:]}") from None


def _class_names(documents: Sequence[_Coco], paths: Sequence[str]) -> dict[int, str]:
    names: dict[int, str] = {}
    for path, document in zip(paths, documents, strict=True):
        for category in document.categories:
            if names.setdefault(category.id, category.name) != category.name:
                both = f"{names[category.id]!r} and {category.name!r}"
                raise FileProblem(path, f"the category {category.id} has two names: {both}")
    twice = sorted({name for name in names.values() if list(names.values()).count(name) > 1})
    if twice:
        raise FileProblem(paths[0], f"two categories have the name {twice[0]!r}")
    return names


@dataclass
class _Reading:
    """One file of COCO while it is read."""

    gathering: Gathering
    names: dict[int, str]
    path: str
    folder: str  # of its images, below that of all
    split: str

    def gather(self, document: _Coco) -> None:
        """Add its images, each with its annotations."""
        objects: dict[int | str, list[_Object]] = {image.id: [] for image in document.images}
        if len(objects) < len(document.images):
            raise FileProblem(self.path, "two images have the same id")
        for found in document.annotations:
            if found.image_id in objects:
                objects[found.image_id].append(found)
            else:
                self.gathering.counted["annotations of images that are not listed"] += 1
        add = {"captions": self._add_caption, "classes": self._add_class}.get(self.gathering.holds, self._add)
        for image in document.images:
            fault = ""
            for number, found in enumerate(objects[image.id]):
                what = add(found)
                fault = fault or (f"object {number} {what}" if what else "")
            size = (image.height, image.width)
            name = self.folder + image.file_name
            self.gathering.add_image(name, str(image.id), size, split=self.split, fault=fault)

    def _add_caption(self, found: _Object) -> str:
        self.gathering.captions.append(found.caption or "")
        return ""

    def _add_class(self, found: _Object) -> str:
        name = self.names.get(found.category_id)
        if name is None:
            return f"has the category {found.category_id}, which has no name"
        self.gathering.add_object((0.0, 0.0, 1.0, 1.0), name)
        return ""

    def _add(self, found: _Object) -> str:
        """Add an object, or all segments of an image; returns why it cannot be used."""
        if found.segments_info is None:
            return self._add_object(found, bytes(found.segmentation), found.keypoints or [])
        picture = str(_png_folder(as_path(self.path)) / Path(found.file_name).name)
        faults = [
            self._add_object(one, msgspec.json.encode({"png": picture, "id": one.id})) for one in found.segments_info
        ]
        return next(filter(None, faults), "")

    def _add_object(self, found: _Object | _Segment, mask: bytes, keypoints: Sequence[float] = ()) -> str:
        name = self.names.get(found.category_id)
        if name is None or found.bbox is None or len(found.bbox) != 4:
            return f"has the category {found.category_id}, which has no name" if name is None else "has no box"
        left, top, width, height = found.bbox
        more: dict[str, Any] = {
            "is_crowd": found.iscrowd,
            "area": width * height if found.area is None else found.area,
            "mask": mask,
            "keypoints": [*keypoints],
        }
        given = {name: value for name, value in more.items() if name in self.gathering.more}
        self.gathering.add_object((left, top, left + width, top + height), name, **given)
        return "has keypoints that are not triples of x, y and visibility" if len(keypoints) % 3 else ""


def _png_folder(annotations: Path) -> Path:
    """Where the PNGs of panoptic annotations are: in a folder named like their JSON, or beside it."""
    own = annotations.with_suffix("")
    return own if own.is_dir() else annotations.parent


def _find_images(annotations: Path, document: _Coco) -> Path | None:
    """The folder near its annotations that holds one of the first images."""
    folder = annotations.parent
    stem = annotations.stem.rpartition("_")[2]
    near = (folder, folder / "images", folder.parent, folder.parent / "images")
    by_name = (folder.parent / stem, folder.parent / "images" / stem, folder / stem)
    for name in (image.file_name for image in document.images[:_LOOKED_FOR]):
        for place in (*near, *by_name):
            if (place / name).is_file():
                return place
    return None


def encode_mask(segmentation: bytes, height: int, width: int) -> bytes:
    """A segmentation in COCO's JSON as a PNG of 0 and 1. Raises ValueError if it is not one."""
    shape = msgspec.json.decode(segmentation) if segmentation else []
    if isinstance(shape, dict) and "png" in shape:
        mask = _from_segments(shape["png"], int(shape["id"]), height, width)
        return _as_png(mask)
    mask = _from_runs(shape, height, width) if isinstance(shape, dict) else _from_polygons(shape, height, width)
    return _as_png(mask)


def _as_png(mask: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(mask).save(out, "PNG")
    return out.getvalue()


def _from_segments(path: str, id: int, height: int, width: int) -> NDArray[np.uint8]:
    """The pixels of one segment in a PNG of panoptic annotations, whose colours are ids."""
    ids = _segment_ids(path)
    if ids.shape != (height, width):
        size = f"{ids.shape[1]}x{ids.shape[0]}"
        raise ValueError(f"the mask {Path(path).name} has {size} pixels, and the image {width}x{height}")
    mask: NDArray[np.uint8] = (ids == id).astype(np.uint8)
    return mask


@lru_cache(maxsize=4)
def _segment_ids(path: str) -> NDArray[np.int64]:
    try:
        colours = decode_pixels(read_named(as_path(path)), 3, upright=False).astype(np.int64)
    except (BadImage, FileProblem, OSError) as error:
        raise ValueError(f"the mask {Path(path).name} cannot be read: {error}") from None
    found: NDArray[np.int64] = colours @ np.array([1, 256, 65536])
    return found


def _from_polygons(polygons: Any, height: int, width: int) -> NDArray[np.uint8]:
    from PIL import Image, ImageDraw

    image = Image.new("L", (width, height))
    draw = ImageDraw.Draw(image)
    if not isinstance(polygons, list):
        raise ValueError("the segmentation is neither polygons nor run lengths")
    for polygon in polygons:
        if not isinstance(polygon, list) or len(polygon) < 6 or len(polygon) % 2:
            raise ValueError("a polygon of the segmentation has no three corners")
        draw.polygon([float(value) for value in polygon], fill=1, outline=1)
    return np.asarray(image)


def _from_runs(runs: dict[str, Any], height: int, width: int) -> NDArray[np.uint8]:
    counts, size = runs.get("counts"), runs.get("size")
    lengths = _uncompressed(counts) if isinstance(counts, str) else np.asarray(counts, np.int64)
    if size != [height, width] or lengths.ndim != 1 or (lengths < 0).any() or lengths.sum() != height * width:
        raise ValueError(f"the run lengths of the segmentation do not make {height}x{width} pixels")
    values = np.arange(len(lengths)) % 2
    return np.repeat(values.astype(np.uint8), lengths).reshape(width, height).T.copy()


def _uncompressed(text: str) -> NDArray[np.int64]:
    """COCO's compressed run lengths: five bits per character, the difference to the run before the last."""
    counts: list[int] = []
    at = 0
    while at < len(text):
        value = shift = 0
        while True:
            if at == len(text):
                raise ValueError("the run lengths of the segmentation end early")
            bits = ord(text[at]) - 48
            if not 0 <= bits < 64:
                raise ValueError("the run lengths of the segmentation contain invalid characters")
            at += 1
            value |= (bits & 31) << shift
            shift += 5
            if not bits & 32:
                if bits & 16:
                    value -= 1 << shift
                break
        counts.append(value + counts[-2] if len(counts) > 2 else value)
    return np.array(counts, np.int64)


_IMAGE_FOLDERS = ("JPEGImages", "images", "Images")
_MOST_LISTED = 10_000  # files that are looked at
_VOC_FEATURES = {
    "difficult": "image/object/difficult",
    "truncated": "image/object/truncated",
    "view": "image/object/view",
}


def is_voc(folder: Path) -> bool:
    """Whether there is XML as Pascal VOC has it: in a folder of annotations, or with the images."""
    places = (folder / "Annotations", folder / "annotations", folder)
    found = next((path for place in places for path in first_in(place, ".xml")[:1]), None)
    if found is None:
        below = (path for path in islice(paths_below(folder), _MOST_LISTED) if path.suffix.lower() == ".xml")
        found = next(below, None)
    if found is None:
        return False
    with open_named(found) as file:
        head = file.read(_LOOKED_AT)
    return re.search(rb"<annotation[\s>]", head) is not None


def read_voc(folder: Path, images: Path | None, classes: Mapping[str, int] | None) -> tuple[Annotations, Path]:
    """Read every XML file of a folder, and find the folder of the images."""
    place = next((folder / name for name in ("Annotations", "annotations") if (folder / name).is_dir()), folder)
    found = walk(place, lambda name: None if name.lower().endswith(b".xml") else "files that are not XML")
    if not len(found):
        raise FileProblem(folder, "there are no annotations in XML in this folder")
    root = images or next((folder / name for name in _IMAGE_FOLDERS if (folder / name).is_dir()), folder)
    gathering = Gathering("pixels", {"difficult": int, "truncated": int, "view": str})
    splits = _splits(folder)
    names = [path.decode(errors="surrogateescape") for path in found.paths]
    is_there = presence(root)
    for name, (path, data) in zip(names, read_each(place / name for name in names), strict=True):
        image_of = partial(_image_name, relative=Path(name), root=root, is_there=is_there)
        split = splits.get(path.stem, "") if splits else _split_of(Path(name))
        _gather_voc(gathering, path, data, image_of, split)
    _add_unannotated(gathering, root, splits)
    if splits and "" in gathering.splits:
        gathering.counted["images that ImageSets does not name"] = gathering.splits.count("")
    return gathering.finish(None if classes is None else dict(classes), _VOC_FEATURES), root


def _add_unannotated(gathering: Gathering, root: Path, splits: Mapping[str, str]) -> None:
    """Images without XML: those that ImageSets lists are taken without objects, and the others are left out."""
    known = {*gathering.paths}
    for path in walk(root, files_of("images")).paths:
        name = path.decode(errors="surrogateescape")
        if name in known:
            continue
        if (split := splits.get(Path(name).stem)) is None:
            gathering.counted["images without XML, left out"] += 1
            continue
        gathering.counted["images without XML that ImageSets lists, taken as without objects"] += 1
        gathering.add_image(name, Path(name).stem, split=split)


def _splits(folder: Path) -> dict[str, str]:
    """Splits by stem, from the lists in ImageSets/Main."""
    found: dict[str, str] = {}
    for path in sorted((folder / "ImageSets" / "Main").glob("*.txt")):
        if (split := split_of_name(path.stem)) is not None:
            lines = read_named(path).decode().splitlines()
            found |= dict.fromkeys((line.split()[0] for line in lines if line.strip()), split)
    return found


def _gather_voc(
    gathering: Gathering, path: Path, data: Callable[[], bytes], image_of: Callable[[str], str], split: str
) -> None:
    begun = len(gathering.boxes)
    try:
        tree = parse_xml(data())
        if tree.tag != "annotation":
            raise ValueError(f"its XML is a {tree.tag!r}, not an 'annotation'")
        size = tree.first("size") or Tag("size")
        for number, node in enumerate(node for node in tree.inner if node.tag == "object"):
            _add_object(gathering, node, number)
        shape = (_whole(size.text_of("height", "0")), _whole(size.text_of("width", "0")))
        name = image_of(tree.text_of("filename"))
    except (ValueError, OSError, expat.ExpatError) as error:
        del gathering.boxes[begun:], gathering.names[begun:]
        for values in gathering.more.values():
            del values[begun:]
        what = f"the XML is damaged: {error}" if isinstance(error, expat.ExpatError) else str(error)
        gathering.add_image(image_of(""), path.stem, split=split, fault=f"{path.name}: {what}")
        return
    gathering.add_image(name, path.stem, shape, split=split)


def _image_name(named: str, *, relative: Path, root: Path, is_there: Callable[[Path], bool]) -> str:
    """The image next to its annotation, or the one that the annotation names, even if it does not exist."""
    by_stem = [str(relative.with_suffix(suffix)) for suffix in suffixes_of("images")]
    base = named.replace("\\", "/").rpartition("/")[2]
    candidates = [str(relative.parent / base), base, *by_stem, *(Path(name).name for name in by_stem)]
    for name in candidates:
        if Path(name).name and is_there(root / name):
            return name
    return base or str(relative.with_suffix(".jpg"))


def _add_object(gathering: Gathering, node: Tag, number: int) -> None:
    box = node.first("bndbox")
    name = node.text_of("name")
    if box is None or not name:
        raise ValueError(f"object {number} has no {'box' if box is None else 'name'}")
    try:
        corners = [float(box.text_of(tag)) for tag in ("xmin", "ymin", "xmax", "ymax")]
    except ValueError:
        raise ValueError(f"object {number} has a box whose corners are not numbers") from None
    gathering.add_object(
        (corners[0], corners[1], corners[2], corners[3]),
        name,
        difficult=_whole(node.text_of("difficult", "0")),
        truncated=_whole(node.text_of("truncated", "0")),
        view=node.text_of("pose"),
    )


def _whole(text: str) -> int:
    try:
        return int(float(text or "0"))
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a number") from None


_NAME_FILES = ("classes.txt", "obj.names", "labels.txt")
_LABELS_LOOKED_AT = 20


_YOLO_LINE = re.compile(rb"\s*\d+(?:\s+[+-]?(?:0?\.\d+|[01](?:\.\d*)?)(?:[eE][+-]?\d+)?){4,}\s*")


def is_yolo(folder: Path) -> bool:
    """Whether images of a folder have files of lines as `0 0.5 0.5 0.2 0.1`, shares of the image."""
    if any((folder / name).is_file() for name in ("data.yaml", "dataset.yaml", "obj.names")):
        return True
    listed = (path for path in islice(paths_below(folder), _MOST_LISTED) if is_file_of("images", path.name))
    for path in islice(listed, _LABELS_LOOKED_AT):
        labels = _label_path(folder, path.relative_to(folder), folder, Path.is_file)
        if labels is not None and labels.name not in _NAME_FILES:
            lines = [line for line in read_named(labels)[:4000].splitlines()[:5] if line.strip()]
            if lines and all(map(_YOLO_LINE.fullmatch, lines)):
                return True
    return False


def read_yolo(folder: Path, images: Path | None, classes: Mapping[str, int] | None) -> tuple[Annotations, Path]:
    """Read the label file of every image; as in YOLO, an image without a label file has no objects."""
    root = images or folder
    found = walk(root, files_of("images"))
    if not len(found):
        raise FileProblem(root, "there are no images in this folder")
    names = _names(folder, classes)
    gathering = Gathering("share", {})
    image_names = [path.decode(errors="surrogateescape") for path in found.paths]
    is_there = presence(root, folder, sibling(root, "labels"))
    paths = [_label_path(root, Path(name), folder, is_there) for name in image_names]
    used = {path for path in paths if path is not None}
    labels = read_each((path for path in paths if path is not None), most_bytes=MOST_BYTES)
    for name, labelled in zip(image_names, paths, strict=True):
        if labelled is None:
            gathering.counted["images without a label file, taken as without objects"] += 1
        fault = "" if labelled is None else _gather_yolo(gathering, *next(labels), names)
        gathering.add_image(name, name, split=_split_of(Path(name)), fault=fault)
    numbers = {name: number + 1 for number, name in names.items()} or None
    if numbers is None:
        numbers = {name: int(name) + 1 for name in gathering.names}
    places = {path.parent for path in used}
    lost = {path for place in places for path in place.glob("*.txt") if path.name not in _NAME_FILES} - used
    if lost:
        gathering.counted["label files without an image"] = len(lost)
    gathering.counted.update(
        {what: count for what, count in found.counted.items() if what != "files that are not images"}
    )
    return gathering.finish(numbers, {}), root


def _split_of(path: Path) -> str:
    return next(filter(None, map(split_of_name, path.parts[:-1])), "")


_LABEL_FOLDERS = ("labels", "Labels", "annotations", "Annotations")


def _label_path(root: Path, name: Path, folder: Path, is_there: Callable[[Path], bool]) -> Path | None:
    """Where YOLO keeps the labels of an image: next to it, or under `labels` if it is under `images`."""
    parts, text = name.parts, name.with_suffix(".txt")
    under = [
        root / Path(*(place if part.lower() == "images" else part for part in parts)).with_suffix(".txt")
        for place in _LABEL_FOLDERS
        if any(part.lower() == "images" for part in parts[:-1])
    ]
    below = Path("labels", *parts).with_suffix(".txt")
    for path in (*under, root / text, root / below, folder / below, root.with_name("labels") / text):
        if is_there(path):
            return path
    return None


def _gather_yolo(gathering: Gathering, path: Path, data: Callable[[], bytes], names: Mapping[int, str]) -> str:
    """Add the objects of one label file; returns why it cannot be used."""
    begun = len(gathering.boxes)
    try:
        lines = data().decode("utf-8-sig").splitlines()
        for number, line in enumerate(lines, 1):
            if line.strip():
                _add_line(gathering, line, number, names)
    except (ValueError, OSError) as error:
        del gathering.boxes[begun:], gathering.names[begun:]
        what = "is not text" if isinstance(error, UnicodeDecodeError) else str(error)
        return f"{path.name}: {what}"
    return ""


def _add_line(gathering: Gathering, line: str, number: int, names: Mapping[int, str]) -> None:
    parts = line.split()
    try:
        code, *values = int(parts[0]), *map(float, parts[1:])
    except ValueError:
        raise ValueError(f"line {number} is not a class and numbers: {line[:60]!r}") from None
    if code < 0 or (names and code not in names):
        raise ValueError(f"line {number} has the class {code}, and there are {len(names)} names")
    if len(values) == 4:
        x, y, width, height = values
        box = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
    elif len(values) >= 6 and len(values) % 2 == 0:  # corners of a polygon
        across, down = values[::2], values[1::2]
        box = (min(across), min(down), max(across), max(down))
        gathering.counted["polygons taken as the boxes round them"] += 1
    else:
        raise ValueError(f"line {number} has {len(values)} numbers after its class, not 4: {line[:60]!r}")
    gathering.add_object(box, names.get(code, str(code)))


def _names(folder: Path, classes: Mapping[str, int] | None) -> dict[int, str]:
    """Names by YOLO's own number, from 0: as given, or from a file next to the data."""
    if classes is not None:
        return {number - 1: name for name, number in classes.items()}
    for place in (folder, folder.parent):
        for name in _NAME_FILES:
            if (place / name).is_file():
                lines = read_named(place / name).decode("utf-8-sig").splitlines()
                return {number: line.strip() for number, line in enumerate(lines) if line.strip()}
        for name in ("data.yaml", "dataset.yaml"):
            if (place / name).is_file():
                return names_in_yaml(place / name)
    return {}


def names_in_yaml(path: Path) -> dict[int, str]:
    """The `names` of a data.yaml: a list in brackets, a list of dashes, or numbers and names."""
    text = read_named(path).decode("utf-8-sig")
    found = re.search(r"^names:[ \t]*(.*(?:\n(?:[ \t]+|-).*)*)", text, re.MULTILINE)
    if found is None:
        return {}
    body = found[1].strip()
    if body.startswith(("[", "{")):
        parts = [part for part in re.split(r",", body.strip("[]{} \n")) if part.strip()]
    else:
        parts = [line for line in body.splitlines() if line.strip() and not line.strip().startswith("#")]
    names: dict[int, str] = {}
    for number, part in enumerate(parts):
        match = re.fullmatch(r"\s*(?:-\s*)?(?:(\d+)\s*:\s*)?(.*?)\s*(?:#.*)?", part)
        assert match is not None
        names[int(match[1]) if match[1] else number] = match[2].strip("'\" ")
    if not all(names.values()):
        raise FileProblem(path, "names must be a list of names, or numbers and names")
    return names
