"""Annotations in COCO's JSON: boxes, classes, crowds, areas, and masks as polygons or run lengths."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.splits import split_named
from bushel.errors import FileProblem
from bushel.sources.detection.annotations import Annotations, Gathering
from bushel.storage import as_path, first_in, open_to_read

__all__ = ["coco_files", "encode_mask", "is_coco", "read_coco"]

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
    with path.open("rb") as file:
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
