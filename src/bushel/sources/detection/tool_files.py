"""Annotations as labelling tools save them: CreateML, VoTT, LabelMe, CVAT, Label Studio, and DOTA's oriented boxes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import cos, radians, sin
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple, TypeAlias
from xml.parsers import expat

import msgspec

from bushel.data.splits import split_named, split_of_name
from bushel.errors import FileProblem
from bushel.pixels.headers import BadImage, parse_header
from bushel.sources.detection.annotations import Annotations, Gathering, Unit
from bushel.sources.detection.xml_files import Tag, parse_xml
from bushel.sources.folders import files_of, walk
from bushel.storage import open_named, paths_below, read_inside, read_named

__all__ = ["TOOLS", "Tool", "find_tool", "read_tool"]

Tool: TypeAlias = Literal["createml", "vott", "labelme", "cvat", "labelstudio", "dota"]
Box: TypeAlias = tuple[float, float, float, float]
_LOOKED_INTO = 1 << 16
_LOOKED_AT = 10_000  # files of a folder
_LOOKED_INTO_FILES = 20
_MOST_BYTES = 256 << 20  # of a file that describes all images
_MEASURED = 200  # images whose sizes decide what the coordinates of CreateML mean


@dataclass
class _Picture:
    """An image as a file of annotations describes it."""

    name: str
    size: tuple[int, int] = (0, 0)  # height and width
    objects: list[tuple[Box, str]] = field(default_factory=list)
    split: str = ""
    hints: tuple[str, ...] = ()  # folders that its path has


class _Format(NamedTuple):
    """A format: suffixes, what a file must begin with, what it must not have, and how it is read."""

    suffixes: tuple[str, ...]
    has: tuple[bytes, ...]
    lacks: tuple[bytes, ...]
    read: Callable[[bytes, PurePosixPath, Counter[str]], Iterator[_Picture]]
    unit: Unit = "pixels"


def _number(value: Any) -> float:
    return float(value or 0)


def _around(points: Sequence[tuple[float, float]]) -> Box:
    across, down = [x for x, _ in points], [y for _, y in points]
    return min(across), min(down), max(across), max(down)


def _read_createml(data: bytes, _: PurePosixPath, __: Counter[str]) -> Iterator[_Picture]:
    for entry in msgspec.json.decode(data):
        picture = _Picture(str(entry.get("image") or entry.get("imagefilename") or ""))
        for found in entry.get("annotations") or entry.get("annotation") or []:
            place = found["coordinates"]
            x, y, width, height = (_number(place[name]) for name in ("x", "y", "width", "height"))
            picture.objects.append(
                ((x - width / 2, y - height / 2, x + width / 2, y + height / 2), str(found["label"]))
            )
        yield picture


def _read_vott(data: bytes, _: PurePosixPath, counted: Counter[str]) -> Iterator[_Picture]:
    document = msgspec.json.decode(data)
    assets = document["assets"].values() if "assets" in document else [document]
    for entry in assets:
        asset = entry["asset"]
        size = asset.get("size") or {}
        picture = _Picture(str(asset["name"]), (int(_number(size.get("height"))), int(_number(size.get("width")))))
        for region in entry.get("regions", []):
            box = region["boundingBox"]
            left, top = _number(box["left"]), _number(box["top"])
            corners = (left, top, left + _number(box["width"]), top + _number(box["height"]))
            if not region.get("tags"):
                counted["regions without a tag, left out"] += 1
            picture.objects += [(corners, str(tag)) for tag in region.get("tags", [])]
        yield picture


def _read_labelme(data: bytes, path: PurePosixPath, counted: Counter[str]) -> Iterator[_Picture]:
    if path.suffix.lower() == ".xml":
        yield _labelme_xml(parse_xml(data), counted)
        return
    document = msgspec.json.decode(data)
    name = str(document.get("imagePath") or "").replace("\\", "/")
    size = (int(document.get("imageHeight") or 0), int(document.get("imageWidth") or 0))
    picture = _Picture(name or path.name, size)
    for shape in document.get("shapes", []):
        points = [(float(x), float(y)) for x, y in shape["points"]]
        kind = shape.get("shape_type") or "polygon"
        if kind == "circle" and len(points) == 2:
            (x, y), edge = points
            radius = ((x - edge[0]) ** 2 + (y - edge[1]) ** 2) ** 0.5
            points = [(x - radius, y - radius), (x + radius, y + radius)]
        elif kind not in ("rectangle", "polygon", "circle", "mask"):
            counted[f"shapes that are a {kind} and have no area, left out"] += 1
            continue
        if kind not in ("rectangle", "mask"):
            counted["polygons taken as the boxes round them"] += 1
        picture.objects.append((_around(points), str(shape["label"])))
    yield picture


def _labelme_xml(tree: Tag, counted: Counter[str]) -> _Picture:
    size = tree.first("imagesize") or Tag("imagesize")
    shape = (int(_number(size.text_of("nrows"))), int(_number(size.text_of("ncols"))))
    hints = tuple(part for part in tree.text_of("folder").split("/") if part)
    picture = _Picture(tree.text_of("filename"), shape, hints=hints)
    for node in tree.all("object"):
        if node.text_of("deleted") == "1":
            counted["objects that were deleted in LabelMe, left out"] += 1
            continue
        polygon, segment = node.first("polygon"), node.first("segm")
        box = segment.first("box") if segment else None
        if box is not None:
            corners = tuple(_number(box.text_of(side)) for side in ("xmin", "ymin", "xmax", "ymax"))
            picture.objects.append(((corners[0], corners[1], corners[2], corners[3]), node.text_of("name")))
        elif polygon is not None:
            points = [(_number(point.text_of("x")), _number(point.text_of("y"))) for point in polygon.all("pt")]
            counted["polygons taken as the boxes round them"] += node.text_of("type") != "bounding_box"
            picture.objects.append((_around(points), node.text_of("name")))
        else:
            counted["objects without a shape, left out"] += 1
    return picture


def _read_cvat(data: bytes, _: PurePosixPath, counted: Counter[str]) -> Iterator[_Picture]:
    tree = parse_xml(data, _MOST_BYTES)
    if tree.first("track") is not None:
        raise ValueError("it has tracks of a video; export it from CVAT as 'CVAT for images 1.1'")
    for node in tree.all("image"):
        size = (int(_number(node.given.get("height"))), int(_number(node.given.get("width"))))
        subset = node.given.get("subset", "")
        name = node.given.get("name", "")
        picture = _Picture(name, size, split=split_of_name(subset) or "", hints=(subset,) if subset else ())
        for shape in node.inner:
            if (box := _cvat_box(shape, counted)) is None:
                continue
            if shape.given.get("label"):
                picture.objects.append((box, shape.given["label"]))
            else:
                counted["shapes without a label, left out"] += 1
        yield picture


def _cvat_box(shape: Tag, counted: Counter[str]) -> Box | None:
    """The box of a shape, or round it; None if it has no area."""
    given = shape.given
    if shape.tag == "box":
        corners = [_number(given.get(side)) for side in ("xtl", "ytl", "xbr", "ybr")]
        turned = _number(given.get("rotation"))
        counted["turned boxes taken as the boxes round them"] += bool(turned)
        return _turned((corners[0], corners[1], corners[2], corners[3]), turned)
    if shape.tag == "mask":
        left, top = _number(given.get("left")), _number(given.get("top"))
        return left, top, left + _number(given.get("width")), top + _number(given.get("height"))
    if shape.tag == "ellipse":
        x, y, rx, ry = (_number(given.get(name)) for name in ("cx", "cy", "rx", "ry"))
        return x - rx, y - ry, x + rx, y + ry
    if shape.tag == "polygon":
        counted["polygons taken as the boxes round them"] += 1
        points = [point.split(",") for point in given.get("points", "").split(";")]
        return _around([(float(x), float(y)) for x, y in points])
    counted[f"shapes that are a {shape.tag} and have no area, left out"] += 1
    return None


def _turned(box: Box, degrees: float) -> Box:
    """The box round a box that is turned about its middle."""
    if not degrees:
        return box
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    angle = radians(degrees)
    corners = [(across - x, down - y) for across in box[::2] for down in box[1::2]]
    return _around([(x + a * cos(angle) - d * sin(angle), y + a * sin(angle) + d * cos(angle)) for a, d in corners])


_STUDIO_NAMES = ("rectanglelabels", "polygonlabels", "labels", "ellipselabels", "brushlabels")


def _read_labelstudio(data: bytes, _: PurePosixPath, counted: Counter[str]) -> Iterator[_Picture]:
    """Label Studio's JSON: places are in hundredths of the image."""
    for task in msgspec.json.decode(data):
        values = [str(value) for value in task["data"].values() if isinstance(value, str)]
        name = next((value for value in values if "." in value.rpartition("/")[2]), values[0] if values else "")
        picture = _Picture(_uploaded_name(name))
        made = [
            done for done in task.get("annotations") or task.get("completions") or [] if not done.get("was_cancelled")
        ]
        counted["further annotations of one task, left out"] += max(0, len(made) - 1)
        for result in made[0]["result"] if made else []:
            value = result.get("value", {})
            labels: list[str] = next((value[name] for name in _STUDIO_NAMES if value.get(name)), [])
            box = _studio_box(value, counted)
            if box is None or not labels:
                counted["results without a place or a label, left out"] += 1
                continue
            picture.objects += [(box, str(label)) for label in labels]
        yield picture


def _uploaded_name(name: str) -> str:
    """The name in an address of Label Studio."""
    return name.rsplit("?d=", maxsplit=1)[-1].split("?", maxsplit=1)[0].replace("\\", "/").rpartition("/")[2]


def _studio_box(value: Mapping[str, Any], counted: Counter[str]) -> Box | None:
    if "points" in value:
        counted["polygons taken as the boxes round them"] += 1
        return _around([(float(x) / 100, float(y) / 100) for x, y in value["points"]])
    if "radiusX" in value:
        x, y, rx, ry = (_number(value[name]) / 100 for name in ("x", "y", "radiusX", "radiusY"))
        return x - rx, y - ry, x + rx, y + ry
    if "width" not in value or "x" not in value:
        return None
    counted["turned boxes, taken as if they were not turned"] += bool(value.get("rotation"))
    left, top, width, height = (_number(value[name]) / 100 for name in ("x", "y", "width", "height"))
    return left, top, left + width, top + height


_DOTA_LINE = re.compile(rb"\s*(?:-?[\d.]+\s+){8}\S+(?:\s+[012])?\s*")
_DOTA_HEAD = re.compile(rb"\s*(?:imagesource|gsd)\s*:.*", re.IGNORECASE)


def _read_dota(data: bytes, path: PurePosixPath, counted: Counter[str]) -> Iterator[_Picture]:
    picture = _Picture(path.name)
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip() or _DOTA_HEAD.fullmatch(line):
            continue
        if not _DOTA_LINE.fullmatch(line):
            raise ValueError(f"line {number} is not eight numbers and a class")
        parts = line.decode(errors="replace").split()
        places = [float(part) for part in parts[:8]]
        picture.objects.append((_around([*zip(places[::2], places[1::2], strict=True)]), parts[8]))
        counted["oriented boxes taken as the boxes round them"] += 1
    yield picture


TOOLS: dict[Tool, _Format] = {
    "createml": _Format(
        (".json",), (rb"^\s*\[\s*\{", rb'"coordinates"\s*:', rb'"image(?:filename)?"\s*:'), (), _read_createml
    ),
    "vott": _Format((".json",), (rb'"asset"\s*:\s*\{', rb'"regions"\s*:'), (), _read_vott),
    "labelme": _Format(
        (".json", ".xml"),
        (rb'"shapes"\s*:\s*\[|<annotation>', rb'"imagePath"\s*:|<polygon>|<segm>'),
        (rb"<bndbox>",),
        _read_labelme,
    ),
    "cvat": _Format((".xml",), (rb"<annotations>", rb"<image\s|<track\s|<meta>"), (), _read_cvat),
    "labelstudio": _Format(
        (".json",),
        (rb"^\s*\[\s*\{", rb'"data"\s*:\s*\{', rb'"(?:annotations|completions)"\s*:'),
        (),
        _read_labelstudio,
        "share",
    ),
    "dota": _Format(
        (".txt",),
        (rb"\A(?:\s*(?:imagesource|gsd)\s*:.*\n)*\s*(?:-?[\d.]+\s+){8}\D\S*(?:\s+[012])?\s*(?:\n|\Z)",),
        (),
        _read_dota,
    ),
}


def find_tool(folder: Path) -> Tool | None:
    """The tool whose files lie with the images of a folder, judging by what is in the first of them.

    Two tools that are met are an error: which one is meant makes other labels.
    """
    suffixes = {suffix for form in TOOLS.values() for suffix in form.suffixes}
    paths = (path for path in islice(paths_below(folder), _LOOKED_AT) if path.suffix.lower() in suffixes)
    found: dict[Tool, Path] = {}
    for path in islice((path for path in paths if path.name[0] != "."), _LOOKED_INTO_FILES):
        for name in _tools_of(path):
            found.setdefault(name, path)
    if len(found) > 1:
        said = " and ".join(f"{path.relative_to(folder)} is of {name}" for name, path in found.items())
        ways = " or ".join(f"--kind annotated --set tool={name}" for name in found)
        raise FileProblem(folder, f"the images have annotations of two tools: {said}", help=[f"Choose one: {ways}"])
    return next(iter(found), None)


def _tools_of(path: Path) -> list[Tool]:
    try:
        with open_named(path) as file:
            head = file.read(_LOOKED_INTO)
    except OSError:
        return []
    return [name for name, form in TOOLS.items() if _is_of(form, path, head)]


def _is_of(form: _Format, path: Path, head: bytes) -> bool:
    is_named = path.suffix.lower() in form.suffixes
    return (
        is_named
        and all(re.search(one, head) for one in form.has)
        and not any(re.search(one, head) for one in form.lacks)
    )


def read_tool(
    folder: Path, images: Path | None, tool: Tool | None, classes: Mapping[str, int] | None
) -> tuple[Annotations, Path, Tool]:
    """Read every file of a tool below a folder, or one file, and find its images."""
    place = folder.parent if folder.is_file() else folder
    chosen = tool or (next(iter(_tools_of(folder)), None) if folder.is_file() else find_tool(folder))
    if chosen is None:
        raise FileProblem(folder, f"there are no annotations of {', '.join(TOOLS)} here")
    form = TOOLS[chosen]
    root = images or place
    known = _Images(root)
    gathering = Gathering(form.unit, {})
    for path in [folder] if folder.is_file() else sorted(paths_below(folder)):
        if path.suffix.lower() in form.suffixes and (folder.is_file() or chosen in _tools_of(path)):
            _gather(gathering, form, path, PurePosixPath(path.relative_to(place).as_posix()), known)
    if not gathering.paths:
        raise FileProblem(folder, f"there are no annotations of {chosen} here")
    if chosen == "createml":
        _choose_anchor(gathering, root)
    if left := len(known) - len(set(gathering.paths) & known.paths):
        gathering.counted["images without annotations, left out"] = left
    gathering.counted = Counter({what: count for what, count in gathering.counted.items() if count})
    return gathering.finish(None if classes is None else dict(classes), {}), root, chosen


def _gather(gathering: Gathering, form: _Format, path: Path, relative: PurePosixPath, known: _Images) -> None:
    by_name = split_named(relative.stem) or next(filter(None, map(split_of_name, relative.parts[:-1])), None) or ""
    try:
        pictures = [*form.read(read_named(path), relative, gathering.counted)]
    except (ValueError, KeyError, TypeError, IndexError, msgspec.MsgspecError, expat.ExpatError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        name = known.find(relative.name, relative, ())
        gathering.add_image(name, str(relative), split=by_name, fault=f"{relative}: cannot be read: {what}")
        return
    for picture in pictures:
        for box, name in picture.objects:
            gathering.add_object(box, name)
        name = known.find(picture.name, relative, picture.hints)
        split = picture.split or by_name or next(filter(None, map(split_of_name, PurePosixPath(name).parts[:-1])), "")
        gathering.add_image(name, name, picture.size, split=split)


class _Images:
    """The images below a folder, found by the end of their paths."""

    def __init__(self, root: Path) -> None:
        listed = walk(root, files_of("images"))
        self.paths = {path.decode(errors="surrogateescape") for path in listed.paths}
        self.by_stem: dict[str, list[PurePosixPath]] = {}
        for path in sorted(self.paths):
            found = PurePosixPath(path)
            self.by_stem.setdefault(found.stem, []).append(found)

    def __len__(self) -> int:
        return len(self.paths)

    def find(self, named: str, annotation: PurePosixPath, hints: Sequence[str]) -> str:
        """The path of an image that a file names: the one that shares most folders with the name and the file."""
        name = PurePosixPath(named.replace("\\", "/"))
        wanted = {part.lower() for part in (*name.parts[:-1], *hints, *annotation.parts[:-1])}
        there = [path for path in self.by_stem.get(name.stem, []) if path.name == name.name]
        there = there or self.by_stem.get(name.stem, [])
        if not there and (bare := re.fullmatch(r"[0-9a-f]{8}-(.+)", name.name)):  # as Label Studio names uploads
            return self.find(bare[1], annotation, hints)
        beside = [path for path in self.by_stem.get(annotation.stem, []) if path.parent == annotation.parent]
        there = there or beside  # the image was renamed together with its file
        if not there:
            return str(name)
        return str(max(there, key=lambda path: len(wanted & {part.lower() for part in path.parts[:-1]})))


def _choose_anchor(gathering: Gathering, root: Path) -> None:
    """Take x and y for the corner of a box, not its middle, if only then all boxes are inside their images."""
    outside = {"middle": 0, "corner": 0}
    for row in range(min(len(gathering.paths), _MEASURED)):
        try:
            header = parse_header(read_inside(root, gathering.paths[row]))  # one elsewhere need not decide this
        except (BadImage, FileProblem, OSError):
            continue
        for left, top, right, bottom in gathering.boxes[gathering.ends[row] : gathering.ends[row + 1]]:
            width, height = right - left, bottom - top
            for name, x, y in (("middle", left, top), ("corner", left + width / 2, top + height / 2)):
                outside[name] += (
                    x < -0.5 or y < -0.5 or x + width > header.width + 0.5 or y + height > header.height + 0.5
                )
    if outside["middle"] and not outside["corner"]:
        gathering.boxes = [
            ((x1 + x2) / 2, (y1 + y2) / 2, x2 + (x2 - x1) / 2, y2 + (y2 - y1) / 2) for x1, y1, x2, y2 in gathering.boxes
        ]
        gathering.counted["boxes whose x and y are a corner: as middles, some are outside their image"] = len(
            gathering.boxes
        )
