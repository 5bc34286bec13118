"""Images with boxes around the objects in them, with the feature names of TensorFlow's Object Detection API."""

from __future__ import annotations

import hashlib
import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, Ragged, is_spooled, load_columns, splits_of, spool_columns, take
from bushel.data.schema import Feature, Schema
from bushel.data.splits import split_named, splits_in_names
from bushel.errors import BushelError, FileProblem
from bushel.pixels.codecs import turn_pixels
from bushel.pixels.headers import BadImage, Header, parse_header
from bushel.sources.detection.annotation_files import (
    coco_files,
    coco_files_left,
    encode_mask,
    read_coco,
    read_voc,
    read_yolo,
)
from bushel.sources.detection.annotations import (
    KEYPOINTS,
    TABLE_FEATURES,
    Annotations,
    BadBoxes,
    Corners,
    Gathering,
    Holds,
    Unit,
    box_tables,
    clean_boxes,
    read_boxes,
    turn_boxes,
    with_suffixes,
)
from bushel.sources.detection.tool_files import Tool, read_tool
from bushel.sources.file_labels import open_rows, row_numbers
from bushel.sources.folders import as_keys, files_of, walk
from bushel.sources.image_checks import Allow, ImageCheck, KeepBytes, allowed
from bushel.sources.protocol import (
    Block,
    Listing,
    Reads,
    Refused,
    Source,
    as_given,
    check_values,
    fingerprint_of,
    recipe_table,
)
from bushel.sources.tables.table import table
from bushel.storage import NAMED_OUT, AnyPath, as_path, list_files, read_below

__all__ = ["DetectionSource", "annotated", "boxes", "coco", "voc", "yolo"]

HowBoxedVerified: TypeAlias = Annotated[
    Literal["decode", "headers"],  # the size of an image is needed
    "How to check images: decode them, or read their headers",
]
ImageFolder: TypeAlias = Annotated[AnyPath | None, "Folder of the images (default: found near the annotations)"]
Classes: TypeAlias = Annotated[Mapping[str, int] | None, "Number of each class (default: as the annotations say)"]
HowBadBoxes: TypeAlias = Annotated[BadBoxes, "What to do with invalid boxes"]
_BLOCK_ROWS = 64
_NUMBERS_PER_CLASS, _FREE_NUMBERS = 100, 10_000  # COCO has 80 classes and numbers up to 90
_CORNERS = ("xmin", "ymin", "xmax", "ymax")
_MASK = "image/object/mask"
_LABEL = "image/object/class/label"
_IMAGE_LABEL = "image/class/label"
_CAPTION = "image/caption"
_POSE = ("visibility", "num")


def coco(
    annotations: AnyPath | Sequence[AnyPath],
    images: ImageFolder = None,
    *,
    masks: Annotated[bool, "Store COCO's segmentations too, as PNGs"] = False,
    classes: Classes = None,
    bad_boxes: HowBadBoxes = "refuse",
    verify: HowBoxedVerified = "decode",
    keep_bytes: KeepBytes = False,
    allow: Allow = (),
) -> DetectionSource:
    """Take a sample from each image of one or several COCO files, or of a folder with such files.

    `images` is the folder that their file names are in; each file's own is found near it. Classes keep COCO's own
    numbers, unless one of them is 0. With `masks`, polygons and run lengths become PNGs in `image/object/mask`. Several
    files whose names, or whose folders, contain train, val or test are those splits.
    """
    arguments = locals()
    check_values(coco, arguments)
    given = as_given(annotations)
    is_folder = isinstance(given, str) and as_path(given).is_dir()
    files = [str(path) for path in (coco_files(as_path(given)) if is_folder else list_files(given))]  # type: ignore[arg-type]
    if not files:
        raise FileProblem(str(given), "there are no annotations in COCO's JSON in this folder")
    found, root = read_coco(files, None if images is None else as_path(images), classes, masks=masks)
    found.counted.update(coco_files_left(as_path(str(given)), files) if is_folder else {})
    return _source(coco, given, files, found, root, arguments)


def voc(
    folder: AnyPath,
    images: ImageFolder = None,
    *,
    classes: Classes = None,
    bad_boxes: HowBadBoxes = "refuse",
    verify: HowBoxedVerified = "decode",
    keep_bytes: KeepBytes = False,
    allow: Allow = (),
) -> DetectionSource:
    """Take a sample from each XML file of a folder as Pascal VOC has it: Annotations, JPEGImages, ImageSets.

    XML next to the images works too. Lists in ImageSets/Main that are named train, val or test are splits. Classes are
    numbered from 1 by their names.
    """
    arguments = locals()
    check_values(voc, arguments)
    found, root = read_voc(as_path(folder), None if images is None else as_path(images), classes)
    return _source(voc, str(folder), [], found, root, arguments)


def yolo(
    folder: AnyPath,
    images: ImageFolder = None,
    *,
    classes: Classes = None,
    bad_boxes: HowBadBoxes = "refuse",
    verify: HowBoxedVerified = "decode",
    keep_bytes: KeepBytes = False,
    allow: Allow = (),
) -> DetectionSource:
    """Take a sample from each image of a folder with YOLO labels, next to the images or under `labels`.

    Names of classes come from data.yaml, classes.txt or obj.names; YOLO's 0 is class 1, since 0 is the background.
    Folders named train, val or test are splits.
    """
    arguments = locals()
    check_values(yolo, arguments)
    found, root = read_yolo(as_path(folder), None if images is None else as_path(images), classes)
    return _source(yolo, str(folder), [], found, root, arguments)


def annotated(
    folder: AnyPath,
    images: ImageFolder = None,
    *,
    tool: Annotated[Tool | None, "Tool that saved the annotations (default: found from what is in them)"] = None,
    classes: Classes = None,
    bad_boxes: HowBadBoxes = "refuse",
    verify: HowBoxedVerified = "decode",
    keep_bytes: KeepBytes = False,
    allow: Allow = (),
) -> DetectionSource:
    """Take a sample from each image that files of a labelling tool describe, in a folder or in one file.

    Read are CreateML, VoTT's JSON, LabelMe (JSON and XML), CVAT for images, Label Studio's JSON, and the oriented boxes
    of DOTA. Polygons, ellipses and turned boxes become the boxes round them, and what has no area is left out; both are
    counted. Folders and files named train, val or test are splits. Classes are numbered from 1 by their names.
    """
    arguments = locals()
    check_values(annotated, arguments)
    found, root, chosen = read_tool(as_path(folder), None if images is None else as_path(images), tool, classes)
    return _source(annotated, str(folder), [], found, root, arguments | {"tool": chosen})


def boxes(
    paths: AnyPath | Sequence[AnyPath],
    images: ImageFolder = None,
    *,
    columns: Annotated[Mapping[str, str] | None, 'Columns with unusual names, such as class = "species"'] = None,
    unit: Annotated[Unit | None, "Unit of the corners (default: found from the values)"] = None,
    corners: Annotated[Corners | None, "What a column of four numbers holds (default: found from the values)"] = None,
    classes: Classes = None,
    bad_boxes: HowBadBoxes = "refuse",
    verify: HowBoxedVerified = "decode",
    keep_bytes: KeepBytes = False,
    allow: Allow = (),
) -> DetectionSource:
    """Take a sample from each image of a table with a row per box: filename, xmin, ymin, xmax, ymax, class.

    Common names of these columns are recognised, and `columns` maps unusual ones (`{"class": "species"}`). A box may
    also be a corner and a size (x, y, w, h), or one column `bbox` of four numbers. `width` and `height`, of the image,
    are compared with it. Corners are pixels, or shares of the image where none is far above 1. Of a folder, the tables
    beside its images are read: they are splits if their names say so, and otherwise must say the same.
    """
    arguments = locals()
    check_values(boxes, arguments)
    given = as_given(paths)
    is_folder = isinstance(given, str) and as_path(given).is_dir()
    files = [str(path) for path in (box_tables(as_path(given)) if is_folder else list_files(given))]  # type: ignore[arg-type]
    if not files:
        raise FileProblem(str(given), "there is no table of boxes in this folder")
    root = as_path(images) if images is not None else as_path(files[0]).parent
    root = root / "images" if images is None and (root / "images").is_dir() and is_folder else root
    read = partial(_read_boxes, columns=columns, unit=unit, corners=corners, root=root)
    if not is_folder or splits_in_names(files):
        gathering = read(files)
    else:
        gathering, files = _agreed([(file, partial(read, [file])) for file in files])
    found = with_suffixes(gathering.finish(None if classes is None else dict(classes), TABLE_FEATURES), root)
    if images is None and (root / "images").is_dir() and not (root / found.paths[0].decode()).is_file():
        root = root / "images"
        found = with_suffixes(found, root)
    if is_folder and (left := len({*walk(root, files_of("images")).paths} - {*found.paths})):
        found.counted["images that the table does not name, left out"] = left
    return _source(boxes, given, files, found, root, arguments)


def _read_boxes(files: list[str], *, root: Path, **options: Any) -> Gathering:
    is_list = len(files) == 1 and files[0].lower().endswith(".txt")
    known = row_numbers(walk(root, files_of("images")).paths) if is_list else {}
    return read_boxes(open_rows(files[0], known) if is_list else table(files), root=root, **options)


def _agreed(tables: list[tuple[str, Callable[[], Gathering]]]) -> tuple[Gathering, list[str]]:
    """The boxes of the first table that can be read; the others that can must say the same."""
    read: dict[str, Gathering] = {}
    problem: FileProblem | None = None
    for file, call in tables:
        try:
            read[file] = call()
        except FileProblem as error:
            problem = problem or error
    if not read:
        assert problem is not None
        raise problem
    told = [gathering.told() for gathering in read.values()]
    if len(read) > 1 and sum(map(len, told)) == len(set().union(*told)):
        return _joined(read), list(read)
    if any(one != told[0] for one in told):
        names = [as_path(file).name for file in read]
        help = [f"Build from one of them: `bushel build {file} OUT`" for file in list(read)[:2]]
        raise FileProblem(
            as_path(next(iter(read))).parent, f"the tables of boxes differ: {', '.join(names)}", help=help
        )
    first, gathering = next(iter(read.items()))
    if len(tables) > 1:
        gathering.counted["tables that say the same of the images"] = len(read) - 1
        gathering.counted["tables that could not be read"] = len(tables) - len(read)
    gathering.counted = Counter({what: count for what, count in gathering.counted.items() if count})
    return gathering, [first]


def _source(
    make: Callable[..., DetectionSource],
    given: str | list[str],
    files: list[str],
    found: Annotations,
    root: Path,
    arguments: Mapping[str, Any],
) -> DetectionSource:
    check = ImageCheck(arguments["verify"], arguments["keep_bytes"], allowed(arguments["allow"]))
    resolved = {**arguments, "classes": found.classes, "allow": check.allow}
    recipe = recipe_table(make, given, resolved, always=("classes", "bad_boxes", "verify"))
    facts = _Facts(tuple(files), str(root), found.unit, found.classes, found.faults, found.counted, found.holds)
    return DetectionSource(facts, check, arguments["bad_boxes"], recipe, found)


def _joined(read: dict[str, Gathering]) -> Gathering:
    """The boxes of tables about different images; the names of the tables may say the splits."""
    splits = [split_named(as_path(file).stem) for file in read]
    for split, gathering in zip(splits, read.values(), strict=True):
        if None not in splits and not any(gathering.splits):
            gathering.splits = [str(split)] * len(gathering.splits)
    first, *others = read.values()
    units = {gathering.unit for gathering in read.values()}
    if len(units) > 1 or any(set(other.more) != set(first.more) for other in others):
        names = ", ".join(as_path(file).name for file in read)
        raise FileProblem(next(iter(read)), f"the tables of boxes have different columns or units: {names}")
    for other in others:
        first.join(other)
    return first


class _Facts(NamedTuple):
    files: tuple[str, ...]
    root: str
    unit: Unit
    classes: dict[str, int]
    faults: dict[int, str]
    counted: dict[str, int]
    holds: Holds


class DetectionSource(Source):
    """Samples from annotated images; reads at random, in one partition."""

    reads: Reads = "random"

    def __init__(
        self, facts: _Facts, check: ImageCheck, bad_boxes: BadBoxes, recipe: dict[str, Any], found: Annotations
    ) -> None:
        self.facts = facts
        self.check = check
        self.bad_boxes: BadBoxes = bad_boxes
        self.recipe = recipe
        self.annotated = found
        self.spooled: Path | None = None
        self.is_inside = False

    @cached_property
    def annotated(self) -> Annotations:
        """The annotations. In another process, as they were when the source was pickled."""
        assert self.spooled is not None
        columns = load_columns(self.spooled)
        more = {name.removeprefix("more:"): columns.pop(name) for name in list(columns) if name.startswith("more:")}
        facts = self.facts
        stated: dict[str, Any] = columns
        return Annotations(
            **stated, unit=facts.unit, classes=facts.classes, more=more, faults=facts.faults, holds=facts.holds
        )

    @property
    def label(self) -> str | None:
        """The classes of objects, or of the whole image."""
        return {"objects": _LABEL, "classes": _IMAGE_LABEL}.get(self.facts.holds)

    @property
    def split(self) -> str | None:
        """`split`, if the annotations have splits."""
        return None if self.annotated.splits is None else "split"

    @property
    def class_names(self) -> list[str]:
        """Names of classes by number; unused numbers get a placeholder."""
        names = {number: name for name, number in self.facts.classes.items()}
        most = max(names, default=0)
        if most > _NUMBERS_PER_CLASS * len(names) + _FREE_NUMBERS:  # every number up to it has a place in the list
            what = f"the class {names[most]!r} has the number {most:,}, and there are {len(names):,} classes"
            raise BushelError(what, help=["Number the classes from 1 on, in the annotations."])
        return [names.get(number, "background" if number == 0 else f"(none {number})") for number in range(most + 1)]

    def kept_inside(self) -> DetectionSource:
        """The same source, which refuses images outside their folder."""
        kept = copy(self)
        kept.is_inside = True
        return kept

    def partitions(self) -> int:
        """One."""
        return 1

    def schema(self) -> Schema:
        """The features of the Object Detection API."""
        text, number = Feature(dtype="str"), Feature(dtype="int64")
        features = {
            "image/encoded": Feature(dtype="bytes", encoding="image"),
            "image/format": text,
            "image/filename": text,
            "image/source_id": text,
            "image/height": number,
            "image/width": number,
        }
        numbers = Feature(dtype="float32", shape=(None,))
        if self.facts.holds == "captions":
            features[_CAPTION] = Feature(dtype="str", shape=(None,))
        if self.label is not None:
            features[_text_of(self.label)] = Feature(dtype="str", shape=(None,))
            features[self.label] = Feature(dtype="int64", shape=(None,))
        if self.facts.holds == "objects":
            features |= {f"image/object/bbox/{corner}": numbers for corner in _CORNERS}
        for name, column in self.annotated.more.items():
            if name == KEYPOINTS:
                features |= {f"{KEYPOINTS}/{axis}": numbers for axis in ("x", "y")}
                features |= {f"{KEYPOINTS}/{what}": Feature(dtype="int64", shape=(None,)) for what in _POSE}
                continue
            is_text = isinstance(column, BytesColumn)
            kind = "bytes" if name == _MASK else "str" if is_text else "float32" if name.endswith("area") else "int64"
            features[name] = Feature(dtype=kind, shape=(None,))
        return Schema(features=features)

    def list(self, partition: int, columns: Sequence[str]) -> Listing:
        """Keys are paths of images."""
        assert partition == 0
        found = self.annotated
        keys = as_keys(found.paths)
        there: dict[str, Column] = {
            self.label or "": Ragged(found.labels, found.row_splits),
            "image/filename": keys,
            "image/source_id": as_keys(found.ids),
        }
        if found.splits is not None:
            there["split"] = found.splits
        return Listing(keys, {name: there[name] for name in columns if name in there}, counted=self.facts.counted)

    def read(self, partition: int, rows: NDArray[np.int64] | None) -> Iterator[Block]:
        """Read and check the requested images, in that order."""
        assert partition == 0
        wanted = np.arange(len(self.annotated)) if rows is None else np.asarray(rows, np.int64)
        for start in range(0, len(wanted), _BLOCK_ROWS):
            yield self._block(wanted[start : start + _BLOCK_ROWS])

    def _block(self, rows: NDArray[np.int64]) -> Block:
        refused: list[Refused] = []
        read = _Read()
        kept: list[int] = []
        for row in rows.tolist():
            try:
                self._add(row, read)
                kept.append(row)
            except _Refusal as why:
                refused.append(Refused(row, why.stage, why.reason))
        return Block(np.array(kept, np.int64), self._columns(np.array(kept, np.int64), read), refused, read.counted)

    def _add(self, row: int, read: _Read) -> None:
        found = self.annotated
        if row in found.faults:
            raise _Refusal("read", found.faults[row])
        root, name = as_path(self.facts.root), found.paths[row].decode(errors="surrogateescape")
        try:
            given, is_outside = read_below(root, name, is_inside=self.is_inside)
        except FileProblem as error:
            raise _Refusal("read", f"the image {error.message}") from None
        except OSError as error:
            raise _Refusal("read", f"the image {root / name}: {(error.strerror or str(error)).lower()}") from None
        try:
            before = parse_header(given)
            data, header = self.check.check(given)
        except BadImage as error:
            raise _Refusal("decode", str(error)) from None
        inside, kept, counted = self._boxes(row, before)
        places = np.arange(found.row_splits[row], found.row_splits[row + 1])[kept]
        masks = self._masks(places, before, header) if _MASK in found.more else []
        read.counted.update(counted)
        read.counted.update([NAMED_OUT] * is_outside)
        if data is not given:
            read.counted["images turned upright"] += 1
        if KEYPOINTS in found.more:
            read.keypoints.append(self._keypoints(row, places, before))
        read.add(data, header, inside, places, masks)

    def _keypoints(self, row: int, places: NDArray[np.int64], before: Header) -> NDArray[np.float64]:
        """The points of some objects: x and y in shares of the image, and visibility."""
        objects: Any = take(self.annotated.more[KEYPOINTS], places)
        points = np.asarray(objects.values, np.float64).reshape(-1, 3)
        shares = self._shares(row, np.concatenate([points[:, :2], points[:, :2]], axis=1), before)
        return np.concatenate([shares[:, :2], points[:, 2:]], axis=1)

    def _boxes(self, row: int, before: Header) -> tuple[Any, Any, dict[str, int]]:
        found = self.annotated
        boxes = np.asarray(found.boxes[found.row_splits[row] : found.row_splits[row + 1]])
        boxes = self._shares(row, boxes, before)
        inside, kept, counted, why = clean_boxes(boxes, self.bad_boxes)
        if why:
            raise _Refusal("schema", why)
        return inside, kept, counted

    def _shares(self, row: int, boxes: Any, before: Header) -> Any:
        """Boxes as shares of the image, turned upright with it."""
        found = self.annotated
        stated = tuple(found.sizes[row].tolist())
        upright = _upright(before)
        as_stored = (before.height, before.width)
        if all(stated) and stated not in (as_stored, upright):
            size = f"{stated[1]}x{stated[0]}"
            raise _Refusal("read", f"its annotations are of an image of {size}, and it has {upright[1]}x{upright[0]}")
        is_stored = all(stated) and stated == as_stored != upright
        if found.unit == "pixels":
            height, width = as_stored if is_stored else upright
            boxes = boxes / [width, height, width, height]
        return turn_boxes(boxes, before.orientation) if is_stored and not self.check.keep_bytes else boxes

    def _masks(self, places: NDArray[np.int64], before: Header, header: Header) -> Sequence[bytes]:
        segmentations = self.annotated.more[_MASK]
        size = (before.height, before.width)
        row = int(np.searchsorted(self.annotated.row_splits, places[0], "right")) - 1 if len(places) else 0
        stated = tuple(self.annotated.sizes[row].tolist()) if len(places) else size
        is_stored = stated == size != _upright(before) and not self.check.keep_bytes
        made = []
        for place in places.tolist():
            try:
                height, width = stated if all(stated) else (header.height, header.width)
                mask = encode_mask(segmentations[place], height, width)
            except ValueError as error:
                raise _Refusal("schema", str(error)) from None
            made.append(_turn_png(mask, before.orientation) if is_stored else mask)
        return made

    def _columns(self, kept: NDArray[np.int64], read: _Read) -> dict[str, Column]:
        found = self.annotated
        counts = [len(places) for places in read.places]
        splits = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        places = np.concatenate([np.empty(0, np.int64), *read.places])
        corners = np.concatenate([np.empty((0, 4)), *read.boxes]).astype(np.float32)
        labels = np.asarray(found.labels[places])
        names = BytesColumn.of(self.class_names)
        columns: dict[str, Column] = {
            "image/encoded": BytesColumn.of(read.images),
            "image/format": BytesColumn.of([header.format for header in read.headers]),
            "image/filename": as_keys(found.paths.take(kept)),
            "image/source_id": as_keys(found.ids.take(kept)),
            "image/height": np.array([header.height for header in read.headers], np.int64),
            "image/width": np.array([header.width for header in read.headers], np.int64),
        }
        if found.captions is not None:
            columns[_CAPTION] = take(found.captions, kept)
        if self.label is not None:
            columns |= {_text_of(self.label): Ragged(names.take(labels), splits), self.label: Ragged(labels, splits)}
        for at, corner in enumerate(_CORNERS if self.facts.holds == "objects" else ()):
            columns[f"image/object/bbox/{corner}"] = Ragged(np.ascontiguousarray(corners[:, at]), splits)
        for name, column in found.more.items():
            if name == KEYPOINTS:
                columns |= _pose_columns(take(column, places), read.keypoints, splits)
                continue
            values = BytesColumn.of(read.masks) if name == _MASK else take(column, places)
            is_area = name.endswith("area")
            columns[name] = Ragged(np.asarray(values, np.float32) if is_area else values, splits)
        return columns

    def locate(self, partition: int, row: int) -> str:
        """The path of the image."""
        assert partition == 0
        return str(as_path(self.facts.root) / self.annotated.paths[row].decode(errors="backslashreplace"))

    def fingerprint(self) -> str:
        """The annotations, which name the images, and the options."""
        digest = hashlib.blake2b(digest_size=16)
        for column in self.annotated.columns().values():
            for part in _parts(column):
                digest.update(np.ascontiguousarray(part).data)
        return fingerprint_of(self.facts.files, self.describe(), digest.hexdigest())

    def describe(self) -> dict[str, Any]:
        """The path and options, and the number of each class."""
        return dict(self.recipe)

    def spool(self, folder: Path | None = None) -> None:
        """Write the annotations to files that other processes can map, in `folder` or in a temporary folder."""
        if not is_spooled(self.spooled, folder):
            self.spooled = spool_columns(self.annotated.columns(), folder)

    def __getstate__(self) -> dict[str, Any]:
        self.spool()
        return {name: value for name, value in self.__dict__.items() if name != "annotated"}


def _parts(column: Column) -> Iterator[Any]:
    if isinstance(column, BytesColumn):
        yield from (column.offsets, column.data)
    elif isinstance(column, Ragged):
        yield column.row_splits
        yield from _parts(column.values)
    else:
        yield column


def _text_of(label: str) -> str:
    """The feature of the names beside that of the numbers."""
    return label.removesuffix("label") + "text"


def _pose_columns(points: Any, read: Sequence[Any], splits: NDArray[np.int64]) -> dict[str, Column]:
    """The keypoints of all objects of an image one after the other, and how many each object has."""
    flat = np.concatenate([np.empty((0, 3)), *read])
    by_image = splits_of([len(one) for one in read])
    return {
        f"{KEYPOINTS}/x": Ragged(np.ascontiguousarray(flat[:, 0], np.float32), by_image),
        f"{KEYPOINTS}/y": Ragged(np.ascontiguousarray(flat[:, 1], np.float32), by_image),
        f"{KEYPOINTS}/visibility": Ragged(np.ascontiguousarray(flat[:, 2], np.int64), by_image),
        f"{KEYPOINTS}/num": Ragged(points.lengths // 3, splits),
    }


class _Refusal(Exception):
    def __init__(self, stage: str, reason: str) -> None:
        super().__init__(reason)
        self.stage, self.reason = stage, reason


@dataclass
class _Read:
    """The images of one block while it is being read."""

    images: list[bytes] = field(default_factory=list)
    headers: list[Header] = field(default_factory=list)
    boxes: list[Any] = field(default_factory=list)
    places: list[NDArray[np.int64]] = field(default_factory=list)
    masks: list[bytes] = field(default_factory=list)
    keypoints: list[Any] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)

    def add(self, data: bytes, header: Header, boxes: Any, places: NDArray[np.int64], masks: Sequence[bytes]) -> None:
        """Keep one image."""
        self.images.append(data)
        self.headers.append(header)
        self.boxes.append(boxes)
        self.places.append(places)
        self.masks += masks


def _upright(header: Header) -> tuple[int, int]:
    size = (header.height, header.width)
    return size[::-1] if header.orientation >= 5 else size


def _turn_png(data: bytes, orientation: int) -> bytes:
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        turned = turn_pixels(np.asarray(image), orientation)
    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(turned)).save(out, "PNG")
    return out.getvalue()
