"""Images with a mask each, in folders beside each other: which class every pixel has."""

from __future__ import annotations

import csv
import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, permutations, takewhile
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, take
from bushel.data.schema import Feature, Schema
from bushel.errors import FileProblem
from bushel.parallel import Helpers
from bushel.pixels.codecs import turn_pixels
from bushel.pixels.headers import BadImage, parse_header
from bushel.sources.folders import FileList, files_of, is_file_of, told_by_folders, walk
from bushel.sources.image_checks import MAX_PIXELS, Allow, CheckedImages, HowVerified, ImageCheck, KeepBytes, allowed
from bushel.sources.image_folder import ImageSource
from bushel.sources.protocol import Block, Refused, check_values, recipe_table
from bushel.storage import AnyPath, as_path, paths_below, read_named

__all__ = ["MaskPair", "MaskSource", "find_mask_pair", "masks"]

_MASK_NAME = re.compile(
    r"masks?|labels?|annotations?|annots?|gt|ground_?truth|seg(?:mentations?|maps?)?|semseg|trimaps?|segmentationclass",
    re.IGNORECASE,
)
_IMAGE_NAME = re.compile(r"images?|imgs?|jpegimages|rgb|frames?|inputs?|photos?", re.IGNORECASE)
_MOST_WORDS = 8  # folders beside each other, of which two may be a pair
_LOOKED_AT = 10_000  # files of a folder
_LOOKED_INTO = 4  # images of each folder
_FEW_LEVELS = 32  # of grey or colours, that a mask has at most
_MAPS = ("labelmap.csv", "class_dict.csv", "labelmap.txt")  # names and colours of classes


class MaskPair(NamedTuple):
    """The folder of images and that of masks: their names, at one depth of the path."""

    depth: int
    images: str
    masks: str
    is_certain: bool  # whether the name of the folder says so, too

    def mask_folder(self, folder: PurePosixPath) -> PurePosixPath | None:
        """Where the masks of a folder of images are."""
        parts = folder.parts
        if len(parts) <= self.depth or parts[self.depth] != self.images:
            return None
        return PurePosixPath(*parts[: self.depth], self.masks, *parts[self.depth + 1 :])


def find_mask_pair(folder: Path) -> MaskPair | None:
    """Two folders of images with the same file names, of which one holds few levels; None if there are none."""
    by_folder: dict[PurePosixPath, list[str]] = {}
    for path in islice(paths_below(folder), _LOOKED_AT):
        if is_file_of("images", path.name) and path.name[0] != ".":
            place = PurePosixPath(path.parent.relative_to(folder).as_posix())
            by_folder.setdefault(place, []).append(path.name)
    words: dict[int, set[str]] = {}
    for place in by_folder:
        for depth, part in enumerate(place.parts):
            words.setdefault(depth, set()).add(part)
    for depth, one, other in _pairs(words):
        pair = MaskPair(depth, one, other, is_certain=_MASK_NAME.fullmatch(other) is not None)
        if _has_same_names(pair, by_folder) and (found := _with_levels(pair, folder, by_folder)):
            return found
    return None


def _pairs(words: Mapping[int, set[str]]) -> Iterator[tuple[int, str, str]]:
    """Words at one depth that may be the folder of images and that of masks; of many, only those named so."""
    for depth, there in words.items():
        for one, other in permutations(sorted(there), 2) if len(there) <= _MOST_WORDS else ():
            if len(there) == 2 or (_IMAGE_NAME.fullmatch(one) and _MASK_NAME.fullmatch(other)):
                yield depth, one, other


def _has_same_names(pair: MaskPair, by_folder: Mapping[PurePosixPath, list[str]]) -> bool:
    """Whether nearly all images of the first folder have a file in the second."""
    of_images = [place for place in by_folder if pair.mask_folder(place) in by_folder]
    of_masks = {pair.mask_folder(place) for place in of_images}
    is_all = len(of_images) + len(of_masks) == len(by_folder)
    if not of_images or not (is_all or (pair.is_certain and _IMAGE_NAME.fullmatch(pair.images))):
        return False
    matched = total = 0
    for place in of_images:
        names, others = by_folder[place], by_folder[pair.mask_folder(place)]  # type: ignore[index]
        matched += len(_match(names, others))
        total += max(len(names), len(others))
    return matched * 10 >= total * 9


def _with_levels(pair: MaskPair, folder: Path, by_folder: Mapping[PurePosixPath, list[str]]) -> MaskPair | None:
    """The pair, if its masks have few levels, and its images many or the name of the folder says which is which."""
    place = next(place for place in by_folder if pair.mask_folder(place) in by_folder)
    mask_place = pair.mask_folder(place)
    assert mask_place is not None
    few = [
        all(count is not None and count <= _FEW_LEVELS for count in _levels(folder / at, by_folder[at]))
        for at in (place, mask_place)
    ]
    is_named = pair.is_certain and not _MASK_NAME.fullmatch(pair.images)
    return pair if few[1] and (is_named or not few[0]) else None


def _levels(folder: Path, names: Sequence[str]) -> list[int | None]:
    return [_count_levels(folder / name) for name in sorted(names)[:_LOOKED_INTO]]


def _count_levels(path: Path) -> int | None:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(read_named(path))) as image:
            pixels = np.asarray(image if image.mode != "1" else image.convert("L"))
    except (OSError, SyntaxError, ValueError, FileProblem, Image.DecompressionBombError):
        return None
    return len(np.unique(pixels.reshape(-1, pixels.shape[2]) if pixels.ndim == 3 else pixels.reshape(-1), axis=0))


def _match(images: Iterable[str], others: Iterable[str]) -> dict[str, str]:
    """The mask of each image: of the same stem, or the same but for what all names of a folder begin and end with."""
    of_images, of_masks = ({Path(name).stem: name for name in names} for names in (images, others))
    if not of_images.keys() & of_masks.keys():
        of_images, of_masks = _without_affixes(of_images), _without_affixes(of_masks)
    return {name: of_masks[stem] for stem, name in of_images.items() if stem in of_masks}


def _without_affixes(names: Mapping[str, str]) -> dict[str, str]:
    """Names by their stems without the words that all of them begin and end with; digits stay."""
    stems = list(names)
    before = re.sub(r"\d+$", "", _common_start(stems))
    after = re.sub(r"\d+$", "", _common_start([stem[::-1] for stem in stems]))
    kept = {stem: stem[len(before) : len(stem) - len(after)] for stem in stems}
    return {kept[stem] or stem: name for stem, name in names.items()}


def _common_start(texts: Sequence[str]) -> str:
    """The characters that all texts begin with."""
    columns = takewhile(lambda column: len(set(column)) == 1, zip(*texts, strict=False))
    return "".join(column[0] for column in columns)


def masks(
    folder: AnyPath,
    *,
    images: Annotated[str | None, "Name of the folder of images (default: found from what is in the folders)"] = None,
    masks: Annotated[str | None, "Name of the folder of masks (default: found from what is in the folders)"] = None,
    colours: Annotated[
        AnyPath | None, "Table of classes and their colours (default: labelmap.csv or class_dict.csv)"
    ] = None,
    verify: HowVerified = "decode",
    keep_bytes: KeepBytes = False,
    allow: Allow = (),
    helpers: Helpers = None,
) -> MaskSource:
    """Take a sample from each image that has a mask: `images/1.jpg` and `masks/1.png`.

    A mask is stored as a PNG whose pixels are the numbers of classes: levels of grey as they are, indexes of a palette,
    or colours by the table of classes. Names match if they are the same but for their suffix and for what all names of
    a folder begin or end with. A mask of another size than its image, or with a number that the table lacks, is
    refused. Folders named train, val or test are splits.
    """
    given = locals()
    check_values(MASKS, given)
    check = ImageCheck(verify, keep_bytes, allowed(allow), MAX_PIXELS)
    pair = _named_pair(as_path(folder), images, masks) if images and masks else find_mask_pair(as_path(folder))
    if pair is None:
        help = ["Name both folders: --set images=NAME --set masks=NAME"]
        raise FileProblem(folder, "there are no two folders of images and masks with the same names", help=help)
    stated = given | {"allow": check.allow, "images": pair.images, "masks": pair.masks}
    source = MaskSource(
        path=str(folder),
        class_folder="none",
        recipe=recipe_table(MASKS, str(folder), stated, first=("verify",)),
        given_labels=None,
        label_column=None,
        check=check,
        pair=pair,
        classes=_read_classes(as_path(folder), None if colours is None else as_path(colours)),
    )
    source.look(helpers)
    if not len(source.files):
        raise FileProblem(folder, f"no image in {pair.images!r} has a mask in {pair.masks!r}")
    return source


MASKS = masks  # an option of it has the same name


def _named_pair(folder: Path, images: str, masks: str) -> MaskPair:
    for path in islice(paths_below(folder), _LOOKED_AT):
        parts = path.relative_to(folder).parts[:-1]
        if masks in parts:
            return MaskPair(parts.index(masks), images, masks, is_certain=True)
    raise FileProblem(folder, f"there is no folder {masks!r} in it")


class _Classes(NamedTuple):
    """Names of classes by number, and the colour of each, if a table states them."""

    where: str
    names: tuple[str, ...]
    colours: tuple[tuple[int, int, int], ...]


def _read_classes(folder: Path, given: Path | None) -> _Classes | None:
    """The table of classes: name,r,g,b with a first line, or `name:r,g,b::` as Pascal VOC has it."""
    found = given or next((folder / name for name in _MAPS if (folder / name).is_file()), None)
    if found is None:
        return None
    text = read_named(found).decode("utf-8-sig", errors="replace")
    if found.suffix.lower() == ".txt":
        rows = [re.split(r"[:,]", line)[:4] for line in text.splitlines() if line.strip() and line[0] != "#"]
    else:
        rows = [row for row in csv.reader(io.StringIO(text)) if row][1:]
    try:
        colours = tuple((int(row[1]), int(row[2]), int(row[3])) for row in rows)
    except (ValueError, IndexError):
        raise FileProblem(found, "is not a table of classes: name, red, green, blue") from None
    return _Classes(found.name, tuple(row[0].strip() for row in rows), colours)


@dataclass(eq=False, kw_only=True)
class MaskSource(ImageSource):
    """Samples from images and their masks; reads at random, in one partition."""

    has_class_folders = False
    pair: MaskPair
    classes: _Classes | None

    def find_files(self, helpers: Helpers = None) -> FileList:
        """The images that have a mask."""
        found = walk(as_path(self.path), files_of("images"), helpers)
        masks = self._mask_names(found)
        used = {*masks.values()}
        counted = Counter(found.counted)
        left: list[int] = []
        for row, path in enumerate(found.paths):
            name = path.decode(errors="surrogateescape")
            if name not in masks:
                left.append(row)
                counted.update([self._why_left(PurePosixPath(name))] if name not in used else [])
        rest = found.but(left, "")
        return FileList(rest.paths, rest.folder, rest.sizes, rest.times, rest.folders, dict(counted))

    def _why_left(self, path: PurePosixPath) -> str:
        if self.pair.mask_folder(path.parent) is not None:
            return "images without a mask, left out"
        is_mask = self.pair.masks in path.parts[self.pair.depth : self.pair.depth + 1]
        return "masks without an image, left out" if is_mask else "images in other folders, left out"

    def _mask_names(self, found: FileList) -> dict[str, str]:
        """The path of the mask of each image."""
        by_folder: dict[PurePosixPath, list[str]] = {}
        for path in found.paths:
            place = PurePosixPath(path.decode(errors="surrogateescape"))
            by_folder.setdefault(place.parent, []).append(place.name)
        masks: dict[str, str] = {}
        for place, names in by_folder.items():
            beside = self.pair.mask_folder(place)
            if beside is not None and beside in by_folder:
                masks |= {str(place / a): str(beside / b) for a, b in _match(names, by_folder[beside]).items()}
        return masks

    @cached_property
    def labels(self) -> None:
        """None: the masks say what is in an image."""
        return

    @cached_property
    def listed(self) -> dict[str, Column]:
        """The split and the mask of each image."""
        if self.spooled is not None and (self.spooled / "listed" / "columns.json").exists():
            return super().listed
        every = walk(as_path(self.path), files_of("images"))
        masks = self._mask_names(every)
        names = [masks[path.decode(errors="surrogateescape")] for path in self.files.paths]
        return self._splits() | {"mask": BytesColumn.of([name.encode(errors="surrogateescape") for name in names])}

    def _splits(self) -> dict[str, Column]:
        """The splits in the names of folders, above or below that of the images."""
        places = [PurePosixPath(folder.decode(errors="surrogateescape")) for folder in self.files.folders]
        bare = [str(PurePosixPath(*(part for part in place.parts if part != self.pair.images))) for place in places]
        folders = BytesColumn.of(["" if name == "." else name for name in bare])
        files = self.files
        used = sorted({*files.folder.tolist()})
        numbers = np.zeros(len(folders), np.int32)
        numbers[used] = np.arange(len(used))
        renamed = FileList(
            files.paths, numbers[files.folder], files.sizes, files.times, folders.take(np.array(used)), {}
        )
        return {name: column for name, column in told_by_folders(renamed, "none").items() if name == "split"}

    def schema(self) -> Schema:
        """The image, its size, its mask and its key."""
        features = dict(super().schema().features)
        key = features.pop("key")
        return Schema(features=features | {"mask": Feature(dtype="bytes", encoding="image"), "key": key})

    def read_undecoded(self, partition: int, rows: NDArray[np.int64] | None) -> Any:
        """Masks are decoded in any case."""
        return self.read(partition, rows)

    def _block_of(self, kept: NDArray[np.int64], checked: CheckedImages, left: Sequence[Refused]) -> Block:
        block = super()._block_of(kept, checked, left)
        sizes = [*zip(block.columns["image/height"], block.columns["image/width"], strict=True)] if len(kept) else []
        made: list[bytes] = []
        good: list[int] = []
        refused = list(block.refused)
        for at, row in enumerate(kept.tolist()):
            try:
                made.append(self._mask(row, (int(sizes[at][0]), int(sizes[at][1])), is_turned=bool(checked.counted)))
                good.append(at)
            except (BadImage, FileProblem, OSError) as error:
                refused.append(Refused(row, "decode", f"its mask: {error}"))
        there = np.array(good, np.int64)
        columns = {name: take(column, there) for name, column in block.columns.items()} | {"mask": BytesColumn.of(made)}
        return Block(kept[there], columns, refused, block.counted)

    def _mask(self, row: int, size: tuple[int, int], *, is_turned: bool) -> bytes:
        """The mask of an image as a PNG of numbers, upright as the image is."""
        listed: Any = self.listed["mask"]
        path = self._folder / os.fsdecode(listed[row])
        ids = _read_ids(read_named(path), self.classes)
        if is_turned:
            ids = turn_pixels(ids, parse_header(read_named(self.file_at(row))).orientation)
        if ids.shape != size:
            has = f"{ids.shape[1]}x{ids.shape[0]}"
            raise BadImage(f"{path.name} has {has} pixels, and the image {size[1]}x{size[0]}")
        if self.classes and (wrong := ids[(ids >= len(self.classes.names)) & (ids != 255)]).size:
            known = f"{self.classes.where} has {len(self.classes.names)} classes"
            raise BadImage(f"{path.name} has a pixel of {int(wrong.flat[0])}, and {known}")
        return _as_png(ids)


def _read_ids(data: bytes, classes: _Classes | None) -> NDArray[np.uint16]:
    """The number of the class of each pixel."""
    from PIL import Image

    parse_header(data)
    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.width * image.height > MAX_PIXELS:
                raise BadImage(f"it has {image.width}x{image.height} pixels, which are refused as a decompression bomb")
            pixels = np.asarray(image)
    except (OSError, SyntaxError, ValueError) as error:
        raise BadImage(f"it cannot be decoded: {error}") from None
    if pixels.ndim == 3:
        pixels = _from_colours(pixels[:, :, :3], classes) if pixels.shape[2] >= 3 else pixels[:, :, 0]
    if pixels.dtype.kind == "f" or int(pixels.max(initial=0)) > 65535 or int(pixels.min(initial=0)) < 0:
        raise BadImage("its pixels are not numbers of classes from 0 to 65,535")
    return pixels.astype(np.uint16)


def _from_colours(pixels: NDArray[np.uint8], classes: _Classes | None) -> NDArray[np.uint16]:
    if (pixels == pixels[:, :, :1]).all():
        return pixels[:, :, 0].astype(np.uint16)  # grey, written as colour
    if classes is None:
        raise BadImage("it is in colour, and no table says which class a colour is (colours=FILE: name, r, g, b)")
    codes = pixels.astype(np.int64) @ np.array([65536, 256, 1])
    known = np.array([(r << 16) + (g << 8) + b for r, g, b in classes.colours])
    order = np.argsort(known, kind="stable")
    places = np.searchsorted(known, codes, sorter=order).clip(max=len(known) - 1)
    ids = order[places]
    if (wrong := pixels[known[ids] != codes]).size:
        r, g, b = wrong[0].tolist()
        raise BadImage(f"it has the colour {r},{g},{b}, which {classes.where} does not list")
    found: NDArray[np.uint16] = ids.astype(np.uint16)
    return found


def _as_png(ids: NDArray[np.uint16]) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(ids.astype(np.uint8) if ids.max(initial=0) < 256 else ids).save(out, "PNG")
    return out.getvalue()
