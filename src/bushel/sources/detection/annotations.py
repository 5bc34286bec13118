"""Annotations of images: which images there are, and their objects. Columns, not one Python object per box."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column

__all__ = ["Annotations", "BadBoxes", "Gathering", "Unit", "clean_boxes", "turn_boxes"]


Unit: TypeAlias = Literal["pixels", "share"]


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
        return found | {f"more:{name}": column for name, column in self.more.items()}


class Gathering:
    """Collects annotations, image by image."""

    def __init__(self, unit: Unit, more: dict[str, type]) -> None:
        self.unit: Unit = unit
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
        )


def number_classes(names: list[str]) -> dict[str, int]:
    """Classes by the order of their names, from 1."""
    return {name: number for number, name in enumerate(sorted(set(names)), 1)}


def _column(values: list[Any], kind: type) -> Column:
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
