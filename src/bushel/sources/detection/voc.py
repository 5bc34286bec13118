"""Annotations in Pascal VOC's XML, one file per image. No entity is ever resolved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from xml.parsers import expat

from bushel.data.splits import split_of_name
from bushel.errors import FileProblem
from bushel.sources.detection.annotations import Annotations, Gathering
from bushel.sources.folders import walk
from bushel.storage import first_in, presence, read_each
from bushel.storage.file_kinds import suffixes_of

__all__ = ["is_voc", "read_voc"]

_FEATURES = {
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
        _gather(gathering, path, data, image_of, splits.get(path.stem, ""))
    if splits and "" in gathering.splits:
        gathering.counted["images that ImageSets does not name"] = gathering.splits.count("")
    return gathering.finish(None if classes is None else dict(classes), _FEATURES), root


def _splits(folder: Path) -> dict[str, str]:
    """Splits by stem, from the lists in ImageSets/Main."""
    found: dict[str, str] = {}
    for path in sorted((folder / "ImageSets" / "Main").glob("*.txt")):
        if (split := split_of_name(path.stem)) is not None:
            found |= dict.fromkeys((line.split()[0] for line in path.read_text().splitlines() if line.strip()), split)
    return found


def _gather(
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
