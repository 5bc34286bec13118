"""Annotations in YOLO's text: one file per image, one line per object, sizes as fractions of the image."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from bushel.data.splits import split_of_name
from bushel.errors import FileProblem
from bushel.sources.detection.annotations import Annotations, Gathering
from bushel.sources.folders import files_of, walk
from bushel.storage import presence, read_each, sibling

__all__ = ["is_yolo", "read_yolo"]

_NAME_FILES = ("classes.txt", "obj.names", "labels.txt")
_MOST_BYTES = 16 << 20
_LOOKED_AT = 20


def is_yolo(folder: Path) -> bool:
    """Whether a folder has images with a file of lines as `0 0.5 0.5 0.2 0.1` for each."""
    if any((folder / name).is_file() for name in ("data.yaml", "dataset.yaml", "obj.names")):
        return True
    labels = folder / "labels"
    if not labels.is_dir() or not ((folder / "images").is_dir()):
        return False
    for number, path in enumerate(labels.rglob("*.txt")):
        if number == _LOOKED_AT:
            break
        first = path.read_bytes()[:200].split(b"\n")[0]
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
        fault = "" if labelled is None else _gather(gathering, *next(labels), names)
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


def _gather(gathering: Gathering, path: Path, data: Callable[[], bytes], names: Mapping[int, str]) -> str:
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
