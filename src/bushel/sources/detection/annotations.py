"""Annotations of images: which there are, and their objects, in columns; also from a table with one row per object."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, Ragged, concatenate
from bushel.data.splits import as_split
from bushel.errors import BushelError, FileProblem, MissingName
from bushel.pixels.headers import BadImage, parse_header
from bushel.sources.file_labels import find_file_column, open_rows, row_numbers
from bushel.sources.folders import files_of, walk
from bushel.sources.tables.table import TableSource
from bushel.storage import first_in, open_named, presence, read_named
from bushel.storage.file_kinds import suffixes_of

__all__ = [
    "TABLE_FEATURES",
    "Annotations",
    "BadBoxes",
    "Corners",
    "Gathering",
    "Unit",
    "box_tables",
    "clean_boxes",
    "has_boxes",
    "read_boxes",
    "turn_boxes",
]


Unit: TypeAlias = Literal["pixels", "share"]
Holds: TypeAlias = Literal["objects", "classes", "captions", "images"]  # what annotations are about
KEYPOINTS = "image/object/keypoint"  # before /x, /y, /visibility and /num
Corners: TypeAlias = Literal["xyxy", "xywh"]
_MEASURED = 200  # images whose sizes decide what four numbers mean
_MOST_TABLES = 20  # that are looked into beside images


@dataclass(frozen=True)
class Annotations:
    """Images with their objects, one after the other: objects of image i are `row_splits[i]:row_splits[i + 1]`."""

    paths: BytesColumn  # below the folder of images
    ids: BytesColumn  # as the annotations name the images
    sizes: NDArray[np.int64]  # height and width according to the annotations; 0 if unknown
    row_splits: NDArray[np.int64]
    boxes: NDArray[np.float64]  # xmin, ymin, xmax, ymax
    unit: Unit
    labels: NDArray[np.int64]
    classes: dict[str, int]
    more: dict[str, Column] = field(default_factory=dict)  # a value per object, by the name of its feature
    splits: BytesColumn | None = None
    faults: dict[int, str] = field(default_factory=dict)  # images whose annotations cannot be used, and why
    counted: dict[str, int] = field(default_factory=dict)
    holds: Holds = "objects"
    captions: Ragged | None = None  # the texts of each image

    def __len__(self) -> int:
        return len(self.paths)

    def columns(self) -> dict[str, Column]:
        """What can be spooled."""
        found: dict[str, Column] = {
            "paths": self.paths,
            "ids": self.ids,
            "sizes": self.sizes,
            "row_splits": self.row_splits,
            "boxes": self.boxes,
            "labels": self.labels,
        }
        if self.splits is not None:
            found["splits"] = self.splits
        if self.captions is not None:
            found["captions"] = self.captions
        return found | {f"more:{name}": column for name, column in self.more.items()}


class Gathering:
    """Collects annotations, image by image."""

    def __init__(self, unit: Unit, more: dict[str, type], holds: Holds = "objects") -> None:
        self.unit: Unit = unit
        self.holds: Holds = holds
        self.captions: list[str] = []
        self.caption_ends: list[int] = [0]
        self.paths: list[str] = []
        self.ids: list[str] = []
        self.sizes: list[tuple[int, int]] = []
        self.ends: list[int] = [0]
        self.boxes: list[tuple[float, float, float, float]] = []
        self.names: list[str] = []
        self.more: dict[str, list[Any]] = {name: [] for name in more}
        self.types = more
        self.splits: list[str] = []
        self.faults: dict[int, str] = {}
        self.counted: Counter[str] = Counter()

    def add_object(self, box: tuple[float, float, float, float], name: str, **more: Any) -> None:
        """Add an object of the image that is added next."""
        self.boxes.append(box)
        self.names.append(name)
        for key, value in more.items():
            self.more[key].append(value)

    def add_image(
        self, path: str, id: str, size: tuple[int, int] = (0, 0), *, split: str = "", fault: str = ""
    ) -> None:
        """Add the image of the objects that were added since the last image."""
        if fault:
            self.faults[len(self.paths)] = fault
        self.paths.append(path)
        self.ids.append(id)
        self.sizes.append(size)
        self.splits.append(split)
        self.ends.append(len(self.boxes))
        self.caption_ends.append(len(self.captions))

    def join(self, other: Gathering) -> None:
        """Append what was gathered elsewhere."""
        before = len(self.boxes)
        self.faults |= {row + len(self.paths): why for row, why in other.faults.items()}
        for name in ("paths", "ids", "sizes", "boxes", "names", "splits"):
            getattr(self, name).extend(getattr(other, name))
        self.ends += [end + before for end in other.ends[1:]]
        for key, values in other.more.items():
            self.more[key] += values
        self.counted.update(other.counted)

    def told(self) -> dict[str, list[Any]]:
        """Boxes and classes by image, to compare with those of another table."""
        rows = range(len(self.paths))
        objects = [*zip(self.boxes, self.names, strict=True)]
        return {self.paths[row]: sorted(objects[self.ends[row] : self.ends[row + 1]]) for row in rows}

    def finish(self, classes: dict[str, int] | None, features: dict[str, str]) -> Annotations:
        """Everything as columns. Classes without a number are numbered from 1 by name, because 0 is the background."""
        known = classes if classes is not None else number_classes(self.names)
        unknown = sorted(set(self.names) - set(known))
        for row in range(len(self.paths) if unknown else 0):
            for name in self.names[self.ends[row] : self.ends[row + 1]]:
                if name not in known:
                    self.faults.setdefault(row, f"the class {name!r} is not among those given")
        more = {features[name]: _column(values, self.types[name]) for name, values in self.more.items()}
        return Annotations(
            BytesColumn.of(self.paths),
            BytesColumn.of(self.ids),
            np.array(self.sizes, np.int64).reshape(-1, 2),
            np.array(self.ends, np.int64),
            np.array(self.boxes, np.float64).reshape(-1, 4),
            self.unit,
            np.array([known.get(name, 0) for name in self.names], np.int64),
            dict(sorted(known.items(), key=lambda pair: pair[1])),
            more,
            BytesColumn.of(self.splits) if all(self.splits) and self.splits else None,
            self.faults,
            dict(self.counted),
            self.holds,
            Ragged(BytesColumn.of(self.captions), np.array(self.caption_ends)) if self.holds == "captions" else None,
        )


def number_classes(names: list[str]) -> dict[str, int]:
    """Classes by the order of their names, from 1."""
    return {name: number for number, name in enumerate(sorted(set(names)), 1)}


def _column(values: list[Any], kind: type) -> Column:
    if kind is list:
        return Ragged.of(values, np.float64)
    return BytesColumn.of(values) if kind in (str, bytes) else np.array(values, np.int64 if kind is int else np.float64)


BadBoxes: TypeAlias = Literal["refuse", "clip"]
Boxes: TypeAlias = NDArray[np.float64]  # xmin, ymin, xmax, ymax, as shares of the image

# The error of rounding to six digits, or of half a pixel in 50,000: no box is invalid because of it.
_ROUNDING = 1e-5


def turn_boxes(boxes: Boxes, orientation: int) -> Boxes:
    """Turn boxes together with their image, as its EXIF orientation says."""
    x1, y1, x2, y2 = boxes.T
    turned = {
        2: (1 - x2, y1, 1 - x1, y2),
        3: (1 - x2, 1 - y2, 1 - x1, 1 - y1),
        4: (x1, 1 - y2, x2, 1 - y1),
        5: (y1, x1, y2, x2),
        6: (1 - y2, x1, 1 - y1, x2),
        7: (1 - y2, 1 - x2, 1 - y1, 1 - x1),
        8: (y1, 1 - x2, y2, 1 - x1),
    }
    return np.stack(turned[orientation], axis=1) if orientation in turned else boxes


def clean_boxes(boxes: Boxes, policy: BadBoxes) -> tuple[Boxes, NDArray[np.bool_], dict[str, int], str]:
    """The boxes inside the image, which of the given ones are left, what was changed, and why the image is refused."""
    finite: NDArray[np.bool_] = np.asarray(np.isfinite(boxes).all(axis=1))
    inside = np.clip(boxes, 0, 1)
    with np.errstate(invalid="ignore"):
        empty = ~finite | (inside[:, 2] <= inside[:, 0]) | (inside[:, 3] <= inside[:, 1])
        outside = (np.abs(inside - boxes) > _ROUNDING).any(axis=1) & ~empty
    if policy == "refuse":
        bad = np.flatnonzero(empty | outside)
        return inside, ~empty, {}, f"{_said(boxes, int(bad[0]), finite)}" if len(bad) else ""
    counted = {}
    if outside.any():
        counted["boxes clipped to their image"] = int(outside.sum())
    if empty.any():
        counted["impossible boxes left out"] = int(empty.sum())
    return inside[~empty], ~empty, counted, ""


def _said(boxes: Boxes, at: int, finite: NDArray[np.bool_]) -> str:
    x1, y1, x2, y2 = (f"{value:.6g}" for value in boxes[at])
    what = f"box {at} of {len(boxes)} ({x1}, {y1}) to ({x2}, {y2}), in shares of the image,"
    if not finite[at]:
        return f"{what} is not finite"
    if boxes[at, 2] <= boxes[at, 0] or boxes[at, 3] <= boxes[at, 1]:
        return f"{what} has its corners the wrong way round, or no area"
    return f"{what} is outside of it"


_ALIASES = {
    "filename": (
        *("filename", "file_name", "file", "image", "image_path", "path", "image_id", "imageid", "img"),
        *("image_name", "imagename"),
    ),
    "xmin": ("xmin", "x_min", "x1", "left", "x"),
    "ymin": ("ymin", "y_min", "y1", "top", "y"),
    "xmax": ("xmax", "x_max", "x2", "right"),
    "ymax": ("ymax", "y_max", "y2", "bottom"),
    "box_width": ("w", "box_width", "bbox_width"),
    "box_height": ("h", "box_height", "bbox_height"),
    "bbox": ("bbox", "box", "bounding_box"),
    "class": ("class", "label", "category", "class_name", "labelname", "label_name", "name", "species"),
    "width": ("width", "image_width", "img_width"),
    "height": ("height", "image_height", "img_height"),
    "split": ("split", "subset"),
    "is_crowd": ("is_crowd", "iscrowd"),
    "difficult": ("difficult",),
    "truncated": ("truncated", "istruncated"),
}
_CORNERS = ("xmin", "ymin", "xmax", "ymax")
_SIZED = ("xmin", "ymin", "box_width", "box_height")
_FORMS = (_CORNERS, _SIZED, ("bbox",))  # how a table may hold a box
_FLAGS = ("is_crowd", "difficult", "truncated")
TABLE_FEATURES = {name: f"image/object/{name}" for name in _FLAGS}


def has_boxes(names: Sequence[str]) -> bool:
    """Whether the columns of a table are those of boxes."""
    lower = {name.strip().lower() for name in names}
    has = {what for what, aliases in _ALIASES.items() if lower & set(aliases)}
    return {"filename", "class"} <= has and any(has.issuperset(form) for form in _FORMS)


def read_boxes(
    source: TableSource, columns: Mapping[str, str] | None, unit: Unit | None, corners: Corners | None, root: Path
) -> Gathering:
    """Read boxes and group them by image, in the order of first appearance."""
    found = _find_columns(list(source.schema()), dict(columns or {}), source.files[0])
    asked = found | ({"split": source.split} if source.split and "split" not in found else {})
    listings = [source.list(part, list(asked.values())).columns for part in range(source.partitions())]
    values = {what: _values(concatenate([listing[name] for listing in listings])) for what, name in asked.items()}
    by_image = _by_image(values["filename"], source.files[0])
    numbers = _box_numbers(values, found, source.files[0])
    if "bbox" in found and not set(_CORNERS) <= set(found):
        is_sized = (corners or _choose_corners(numbers, by_image, root, source.files[0])) == "xywh"
    else:
        is_sized = not set(_CORNERS) <= set(found)
    if is_sized:
        numbers = np.concatenate([numbers[:, :2], numbers[:, :2] + numbers[:, 2:]], axis=1)
    flags = [what for what in _FLAGS if what in found]
    gathering = Gathering(unit or _unit_of(numbers), dict.fromkeys(flags, int))
    for name, rows in by_image.items():
        _gather(gathering, name, rows, values, numbers, flags)
    return gathering


def _box_numbers(values: dict[str, list[Any]], found: Mapping[str, str], where: str) -> NDArray[np.float64]:
    """Four numbers for each row: corners, a corner and a size, or what the column of boxes holds."""
    form = next(form for form in _FORMS if set(form) <= set(found))
    if form != ("bbox",):
        return np.array([_numbers(values[what], found[what], where) for what in form]).T
    made = []
    for row, value in enumerate(values["bbox"]):
        text = value.decode(errors="replace") if isinstance(value, bytes) else "" if value is None else str(value)
        parts = re.findall(r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?", text)
        if text.strip() and len(parts) != 4:
            raise FileProblem(where, f"row {row}: {found['bbox']} must be four numbers, got {text[:40]!r}")
        made.append([float(part) for part in parts] or [float("nan")] * 4)
    return np.array(made).reshape(-1, 4)


def _choose_corners(numbers: NDArray[np.float64], by_image: Mapping[str, list[int]], root: Path, where: str) -> Corners:
    """Whether four numbers are two corners, or a corner and a size: the one reading that fits all boxes."""
    there = numbers[~np.isnan(numbers).any(axis=1)]
    if (there[:, 2:] <= there[:, :2]).any():
        return "xywh"
    for name, rows in islice(by_image.items(), _MEASURED):
        try:
            header = parse_header(read_named(root / image_path(root, name)))
        except (BadImage, FileProblem, OSError):
            continue
        sums = numbers[rows, :2] + numbers[rows, 2:]
        if (sums > np.array([header.width, header.height]) + 1).any():
            return "xyxy"
    raise FileProblem(
        where,
        "its boxes may be two corners, or a corner and a size: both readings are possible",
        help=["Two corners: --set corners=xyxy", "A corner, a width and a height: --set corners=xywh"],
    )


def box_tables(folder: Path) -> list[Path]:
    """The tables of boxes beside images, or beside the folder of the images, also lists in text files."""
    listed = [path for suffix in (".csv", ".tsv", ".txt") for path in first_in(folder, suffix)]
    listed = [path for path in listed[:_MOST_TABLES] if path.name[0] not in "._"]
    names = row_numbers(walk(folder, files_of("images")).paths) if listed else {}
    return [path for path in listed if has_boxes(_names_in(path, names))]


def header_of(path: Path) -> list[str]:
    """The names in the first line of a table."""
    with open_named(path) as file:
        first = file.read(1 << 14).split(b"\n")[0].decode("utf-8-sig", errors="replace").strip()
    return [name.strip("\"' ") for name in re.split(r"[,;\t|]", first)]


def _names_in(path: Path, rows: Mapping[bytes, int]) -> list[str]:
    """The names of the columns of a table; none if it is not about these files."""
    if path.suffix.lower() != ".txt" and not has_boxes(header_of(path)):
        return []
    try:
        source = open_rows(str(path), rows)
        found = list(source.schema())
        if has_boxes(found):
            find_file_column(source, rows, str(path))
    except BushelError:
        return []
    return found


def _find_columns(names: list[str], given: dict[str, str], where: str) -> dict[str, str]:
    for what, name in given.items():
        if what not in _ALIASES:
            raise MissingName("column of boxes", what, _ALIASES, where="columns")
        if name not in names:
            raise MissingName("column", name, names, where=where)
    by_lower = {name.strip().lower(): name for name in reversed(names)}
    found = dict(given)
    for what, aliases in _ALIASES.items():
        close = next((by_lower[alias] for alias in aliases if alias in by_lower), None)
        if what not in found and close is not None and close not in found.values():
            found[what] = close
    form = next((form for form in _FORMS if set(form) <= set(found)), _CORNERS)
    for what in ("filename", *form, "class"):
        if what not in found:
            raise FileProblem(
                where,
                f"no column holds the {what} of boxes",
                help=[f"Its columns are: {', '.join(names)}", f"Name it: --set columns.{what}=COLUMN"],
            )
    return found


def _values(column: Column) -> list[Any]:
    """One value per row; None where it is missing."""
    if isinstance(column, Ragged):
        return [row[0] if row else None for row in column.to_list()]
    return column.tolist() if isinstance(column, np.ndarray) else column.to_list()


def _numbers(values: list[Any], name: str, where: str) -> list[float]:
    for row, value in enumerate(values):
        if isinstance(value, bytes):
            raise FileProblem(where, f"row {row}: {name} must be a number, got {value[:40].decode(errors='replace')!r}")
    return [float("nan") if value is None else float(value) for value in values]


def _unit_of(corners: np.ndarray[Any, Any]) -> Unit:
    """Fractions of the image if no corner is far outside 0 to 1, otherwise pixels."""
    largest = float(np.nanmax(np.abs(corners), initial=0.0))
    return "share" if 0 < largest <= 1.5 else "pixels"


def _by_image(names: list[Any], where: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        if name is None:
            raise FileProblem(where, f"row {row} does not name its image")
        text = name.decode(errors="surrogateescape") if isinstance(name, bytes) else str(name)
        found.setdefault(text, []).append(row)
    return found


def _gather(
    gathering: Gathering, name: str, rows: list[int], values: dict[str, list[Any]], corners: Any, flags: list[str]
) -> None:
    fault = ""
    for row in rows:
        box = tuple(corners[row].tolist())
        label = values["class"][row]
        if label is None and np.isnan(corners[row]).all():
            continue  # a row that names an image without objects
        if label is None or np.isnan(corners[row]).any():
            fault = fault or f"row {row} has {'no class' if label is None else 'a box without all four corners'}"
            continue
        text = label.decode(errors="replace") if isinstance(label, bytes) else str(label)
        gathering.add_object(box, text, **{flag: int(bool(values[flag][row])) for flag in flags})
    size = tuple(_one_size(values, what, rows) for what in ("height", "width"))
    splits = {_text(values["split"][row]) for row in rows} if "split" in values else {""}
    split = splits.pop()
    if splits:
        fault = fault or "its rows are of different splits"
    gathering.add_image(name, name, (size[0], size[1]), split=as_split(split), fault=fault)


def _one_size(values: dict[str, list[Any]], what: str, rows: list[int]) -> int:
    found = {int(values[what][row]) for row in rows if values[what][row] is not None} if what in values else set()
    return found.pop() if len(found) == 1 else 0


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")


def image_path(root: Path, name: str, is_there: Callable[[Path], bool] = Path.is_file) -> str:
    """The path of an image in a table, with the suffix that the table may leave out."""
    suffixes = suffixes_of("images")
    if is_there(root / name) or Path(name).suffix.lower() in suffixes:
        return name
    return next((name + suffix for suffix in suffixes if is_there(root / (name + suffix))), name)


def with_suffixes(annotated: Annotations, root: Path) -> Annotations:
    """The same annotations, with paths as they are on disk."""
    from dataclasses import replace

    is_there = presence(root)
    paths = [image_path(root, path.decode(errors="surrogateescape"), is_there) for path in annotated.paths]
    return replace(annotated, paths=BytesColumn.of([path.encode(errors="surrogateescape") for path in paths]))
