"""Annotations in the files of COCO (JSON), Pascal VOC (XML, of which no entity is ever resolved) and YOLO (text)."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from xml.parsers import expat

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.splits import split_named, split_of_name
from bushel.errors import FileProblem
from bushel.sources.detection.annotations import Annotations, Gathering
from bushel.sources.folders import files_of, walk
from bushel.storage import as_path, first_in, open_named, open_to_read, presence, read_each, read_named, sibling
from bushel.storage.file_kinds import suffixes_of

__all__ = ["coco_files", "encode_mask", "is_coco", "is_voc", "is_yolo", "read_coco", "read_voc", "read_yolo"]


_FEATURES = {"is_crowd": "image/object/is_crowd", "area": "image/object/area", "mask": "image/object/mask"}
_LISTS = re.compile(rb'"(images|annotations|categories)"\s*:\s*\[')
_LOOKED_AT = 1 << 16
_LOOKED_FOR = 20  # images that are tried to find the folder of all
_MOST_FILES = 100  # that are inspected to tell what a folder is
_NOT_BOXES = ("captions", "person_keypoints", "image_info", "panoptic", "stuff")  # of COCO's own download
_OF_SPLIT = "_annotations.coco.json"  # beside its images, as Roboflow exports it


class _Image(msgspec.Struct):
    id: int | str
    file_name: str
    width: int = 0
    height: int = 0


class _Object(msgspec.Struct):
    image_id: int | str
    category_id: int
    bbox: list[float] | None = None
    iscrowd: int = 0
    area: float | None = None
    segmentation: msgspec.Raw = msgspec.Raw(b"")


class _Category(msgspec.Struct):
    id: int
    name: str


class _Coco(msgspec.Struct):
    images: list[_Image]
    annotations: list[_Object]
    categories: list[_Category]


def is_coco(path: Path) -> bool:
    """Whether a JSON file is one document with COCO's lists, judging by its beginning."""
    with open_named(path) as file:
        head = file.read(_LOOKED_AT)
    return head.lstrip()[:1] == b"{" and _LISTS.search(head) is not None and b"\n{" not in head


def coco_files(folder: Path) -> list[Path]:
    """The files of boxes in a folder: beside its images, under `annotations`, or one in the folder of each split.

    COCO's captions and keypoints for the same images are left out.
    """
    places = (folder, folder / "annotations")
    found = [path for place in places for path in first_in(place, ".json")[:_MOST_FILES]]
    found = [path for path in found if path.name[0] != "." and not path.name.startswith(_NOT_BOXES)]
    found += [path for split in ("train", "valid", "val", "test") if (path := folder / split / _OF_SPLIT).is_file()]
    found = [path for path in found if is_coco(path)]
    return [path for path in found if path.name.startswith("instances")] or found


def read_coco(
    paths: Sequence[str], images: Path | None, classes: Mapping[str, int] | None, *, masks: bool
) -> tuple[Annotations, Path]:
    """Read annotation files, and find the folder of the images; several files whose names say so are splits."""
    documents = [_decode(as_path(path)) for path in paths]
    names = _class_names(documents, paths)
    shift = int(any(number == 0 for number in names))
    more: dict[str, type] = {"is_crowd": int, "area": float} | ({"mask": bytes} if masks else {})
    gathering = Gathering("pixels", more)
    splits = [split_named(Path(path).stem) or split_named(Path(path).parent.name) or "" for path in paths]
    is_split = len(paths) > 1 and all(splits)
    root, folders = _image_folders(paths, documents, images)
    for path, document, split, folder in zip(paths, documents, splits, folders, strict=True):
        _gather(gathering, document, names, path=path, split=split if is_split else "", folder=folder, masks=masks)
    if shift and classes is None:
        gathering.counted["classes numbered one higher, since 0 is the background"] = len(names)
    known = dict(classes) if classes is not None else {name: number + shift for number, name in names.items()}
    return gathering.finish(known, _FEATURES), root


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


def _gather(
    gathering: Gathering, document: _Coco, names: dict[int, str], *, path: str, split: str, folder: str, masks: bool
) -> None:
    objects: dict[int | str, list[_Object]] = {image.id: [] for image in document.images}
    if len(objects) < len(document.images):
        raise FileProblem(path, "two images have the same id")
    for found in document.annotations:
        if found.image_id in objects:
            objects[found.image_id].append(found)
        else:
            gathering.counted["annotations of images that are not listed"] += 1
    for image in document.images:
        fault = ""
        for number, found in enumerate(objects[image.id]):
            name = names.get(found.category_id)
            if name is None or found.bbox is None or len(found.bbox) != 4:
                what = f"has the category {found.category_id}, which has no name" if name is None else "has no box"
                fault = fault or f"object {number} {what}"
                continue
            left, top, width, height = found.bbox
            area = width * height if found.area is None else found.area
            more: dict[str, Any] = {"is_crowd": found.iscrowd, "area": area}
            if masks:
                more["mask"] = bytes(found.segmentation)
            gathering.add_object((left, top, left + width, top + height), name, **more)
        name = folder + image.file_name
        gathering.add_image(name, str(image.id), (image.height, image.width), split=split, fault=fault)


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
    from PIL import Image

    shape = msgspec.json.decode(segmentation) if segmentation else []
    mask = _from_runs(shape, height, width) if isinstance(shape, dict) else _from_polygons(shape, height, width)
    out = io.BytesIO()
    Image.fromarray(mask).save(out, "PNG")
    return out.getvalue()


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


_VOC_FEATURES = {
    "difficult": "image/object/difficult",
    "truncated": "image/object/truncated",
    "view": "image/object/view",
}
_MOST_BYTES = 16 << 20
_DEEPEST = 50


@dataclass
class _Node:
    """One tag: its text, and the tags in it."""

    tag: str
    text: str = ""
    inner: list[_Node] = field(default_factory=list)

    def first(self, tag: str) -> _Node | None:
        return next((node for node in self.inner if node.tag == tag), None)

    def text_of(self, tag: str, default: str = "") -> str:
        found = self.first(tag)
        return default if found is None else found.text.strip()


def is_voc(folder: Path) -> bool:
    """Whether a folder has a folder of annotations in XML, or images with XML beside them."""
    return any(first_in(place, ".xml") for place in (folder / "Annotations", folder / "annotations", folder))


def read_voc(folder: Path, images: Path | None, classes: Mapping[str, int] | None) -> tuple[Annotations, Path]:
    """Read every XML file of a folder, and find the folder of the images."""
    place = next((folder / name for name in ("Annotations", "annotations") if (folder / name).is_dir()), folder)
    found = walk(place, lambda name: None if name.lower().endswith(b".xml") else "files that are not XML")
    if not len(found):
        raise FileProblem(folder, "there are no annotations in XML in this folder")
    root = images or next((folder / name for name in ("JPEGImages", "images") if (folder / name).is_dir()), folder)
    gathering = Gathering("pixels", {"difficult": int, "truncated": int, "view": str})
    splits = _splits(folder)
    names = [path.decode(errors="surrogateescape") for path in found.paths]
    is_there = presence(root)
    for name, (path, data) in zip(names, read_each(place / name for name in names), strict=True):
        image_of = partial(_image_name, relative=Path(name), root=root, is_there=is_there)
        _gather_voc(gathering, path, data, image_of, splits.get(path.stem, ""))
    if splits and "" in gathering.splits:
        gathering.counted["images that ImageSets does not name"] = gathering.splits.count("")
    return gathering.finish(None if classes is None else dict(classes), _VOC_FEATURES), root


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
        size = tree.first("size") or _Node("size")
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


def _add_object(gathering: Gathering, node: _Node, number: int) -> None:
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


def parse_xml(data: bytes) -> _Node:
    """Parse XML. Declared entities are refused, because they could grow without limit or read other files."""
    if len(data) > _MOST_BYTES:
        raise ValueError(f"the XML has more than {_MOST_BYTES >> 20} MiB")
    top = _Node("")
    stack = [top]

    def start(tag: str, _: object) -> None:
        if len(stack) > _DEEPEST:
            raise ValueError(f"the XML is more than {_DEEPEST} tags deep")
        stack[-1].inner.append(_Node(tag))
        stack.append(stack[-1].inner[-1])

    def text(part: str) -> None:
        stack[-1].text += part

    def entity(name: str, *_: object) -> None:
        raise ValueError(f"the XML declares an entity, {name!r}, which is never resolved")

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: stack.pop()
    parser.CharacterDataHandler = text
    parser.EntityDeclHandler = entity
    parser.Parse(data, True)
    return top.inner[0]


_NAME_FILES = ("classes.txt", "obj.names", "labels.txt")
_LABELS_LOOKED_AT = 20


def is_yolo(folder: Path) -> bool:
    """Whether a folder has images with a file of lines as `0 0.5 0.5 0.2 0.1` for each."""
    if any((folder / name).is_file() for name in ("data.yaml", "dataset.yaml", "obj.names")):
        return True
    labels = folder / "labels"
    if not labels.is_dir() or not ((folder / "images").is_dir()):
        return False
    for number, path in enumerate(labels.rglob("*.txt")):
        if number == _LABELS_LOOKED_AT:
            break
        first = read_named(path)[:200].split(b"\n")[0]
        if re.fullmatch(rb"\s*\d+(\s+[\d.eE+-]+){4,}\s*", first):
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
    labels = read_each((path for path in paths if path is not None), most_bytes=_MOST_BYTES)
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


def _label_path(root: Path, name: Path, folder: Path, is_there: Callable[[Path], bool]) -> Path | None:
    """Where YOLO keeps the labels of an image: next to it, or under `labels` if it is under `images`."""
    under = [Path(*("labels" if part == "images" else part for part in name.parts)).with_suffix(".txt")]
    below = Path("labels", *name.parts).with_suffix(".txt")
    beside = root.with_name("labels") / name.with_suffix(".txt")
    for path in (root / under[0], root / name.with_suffix(".txt"), root / below, folder / below, beside):
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
                lines = (place / name).read_text(encoding="utf-8-sig").splitlines()
                return {number: line.strip() for number, line in enumerate(lines) if line.strip()}
        for name in ("data.yaml", "dataset.yaml"):
            if (place / name).is_file():
                return names_in_yaml(place / name)
    return {}


def names_in_yaml(path: Path) -> dict[int, str]:
    """The `names` of a data.yaml: a list in brackets, a list of dashes, or numbers and names."""
    text = path.read_text(encoding="utf-8-sig")
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
