"""Boxes against their image: as shares of it, turned with it, and refused or clipped where they are impossible."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["BadBoxes", "clean_boxes", "turn_boxes"]

BadBoxes: TypeAlias = Literal["refuse", "clip"]
Boxes: TypeAlias = NDArray[np.float64]  # xmin, ymin, xmax, ymax, as shares of the image

# What rounding to six digits, or half a pixel of 50,000, makes: no box is impossible for it.
_ROUNDING = 1e-5


def turn_boxes(boxes: Boxes, orientation: int) -> Boxes:
    """Boxes of an image that EXIF says to turn, as those of the image upright."""
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
    """Boxes within the image, which of those given are left, what was changed, and why the image is refused."""
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
