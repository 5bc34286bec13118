"""Boxes in a table: one row per object, with the name of its image."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bushel.data.columns import BytesColumn, Column, Ragged, concatenate
from bushel.data.splits import as_split
from bushel.errors import FileProblem, MissingName
from bushel.sources.detection.annotations import Annotations, Gathering, Unit
from bushel.sources.tables.table import table
from bushel.storage import presence
from bushel.storage.file_kinds import suffixes_of

__all__ = ["has_boxes", "read_boxes"]

_ALIASES = {
    "filename": ("filename", "file_name", "file", "image", "image_path", "path", "image_id", "imageid", "img"),
    "xmin": ("xmin", "x_min", "x1", "left"),
    "ymin": ("ymin", "y_min", "y1", "top"),
    "xmax": ("xmax", "x_max", "x2", "right"),
    "ymax": ("ymax", "y_max", "y2", "bottom"),
    "class": ("class", "label", "category", "class_name", "labelname", "name", "species"),
    "width": ("width", "image_width", "img_width"),
    "height": ("height", "image_height", "img_height"),
    "split": ("split", "subset"),
    "is_crowd": ("is_crowd", "iscrowd"),
    "difficult": ("difficult",),
    "truncated": ("truncated", "istruncated"),
}
_NEEDED = ("filename", "xmin", "ymin", "xmax", "ymax", "class")
_FLAGS = ("is_crowd", "difficult", "truncated")
_TABLE_FEATURES = {name: f"image/object/{name}" for name in _FLAGS}


def has_boxes(names: Sequence[str]) -> bool:
    """Whether the columns of a table are those of boxes."""
    lower = {name.strip().lower() for name in names}
    return all(lower & set(_ALIASES[name]) for name in _NEEDED)


def read_boxes(
    paths: Any, columns: Mapping[str, str] | None, unit: Unit | None, classes: Mapping[str, int] | None
) -> Annotations:
    """Read boxes and group them by image, in the order of first appearance."""
    source = table(paths)
    found = _find_columns(list(source.schema()), dict(columns or {}), source.files[0])
    listings = [source.list(part, list(found.values())).columns for part in range(source.partitions())]
    values = {what: _values(concatenate([listing[name] for listing in listings])) for what, name in found.items()}
    corners = np.array([_numbers(values[what], found[what], source.files[0]) for what in _NEEDED[1:5]]).T
    flags = [what for what in _FLAGS if what in found]
    gathering = Gathering(unit or _unit_of(corners), dict.fromkeys(flags, int))
    for name, rows in _by_image(values["filename"], source.files[0]).items():
        _gather(gathering, name, rows, values, corners, flags)
    return gathering.finish(None if classes is None else dict(classes), _TABLE_FEATURES)


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
    for what in _NEEDED:
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
