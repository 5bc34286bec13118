"""Boxes and masks that go with the pixels of their image."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.errors import SchemaMismatch
from bushel.pixels.encoding import encode_pixels
from bushel.pixels.placing import Boxes, Move
from bushel.records import Sample

__all__ = ["base_of", "follow", "follow_rotation", "sized"]

_CORNERS = ("xmin", "ymin", "xmax", "ymax")


def base_of(feature: str) -> str:
    """What the features about an image begin with: `image` for `image` and for `image/encoded`."""
    return feature.removesuffix("/encoded")


def sized(sample: Sample, feature: str, shape: Sequence[int]) -> Sample:
    """Height, width and channels of an image, where the sample has them."""
    base = base_of(feature)
    sizes = zip(("height", "width", "channels"), shape, strict=False)
    return {f"{base}/{name}": int(size) for name, size in sizes if f"{base}/{name}" in sample}


def follow(sample: Sample, feature: str, move: Move, masks: Sequence[str] = ()) -> Sample:
    """What changes in a sample when its image moves: its boxes, all that is told of their objects, its masks."""
    return _follow(sample, feature, masks, move.boxes, move.mask, move.shares)


def follow_rotation(
    sample: Sample, feature: str, degrees: float, size: tuple[int, int], masks: Sequence[str]
) -> Sample:
    """The same for an image that is turned about its middle: a box becomes the one round its turned corners."""

    def turn_mask(mask: NDArray[Any]) -> NDArray[Any]:
        from PIL import Image

        return np.asarray(Image.fromarray(mask).rotate(degrees, Image.Resampling.NEAREST))

    def turn(boxes: Boxes) -> Boxes:
        return turned_boxes(boxes, degrees, size)

    return _follow(sample, feature, masks, turn, turn_mask, lambda before, _: np.ones(len(before)))


def turned_boxes(boxes: Boxes, degrees: float, size: tuple[int, int]) -> Boxes:
    """The boxes round boxes that are turned counter-clockwise about the middle, clipped to the image."""
    height, width = size
    angle = math.radians(degrees)
    x = (boxes[:, [0, 2, 0, 2]] - 0.5) * width
    y = (boxes[:, [1, 1, 3, 3]] - 0.5) * height
    across = (x * math.cos(angle) + y * math.sin(angle)) / width + 0.5
    down = (y * math.cos(angle) - x * math.sin(angle)) / height + 0.5
    ends = [across.min(axis=1), down.min(axis=1), across.max(axis=1), down.max(axis=1)]
    return np.asarray(np.clip(np.stack(ends, axis=1), 0, 1))


def _follow(
    sample: Sample,
    feature: str,
    masks: Sequence[str],
    move_boxes: Callable[[Boxes], Boxes],
    move_mask: Callable[[NDArray[Any]], NDArray[Any]],
    shares: Callable[[Boxes, Boxes], NDArray[np.float64]],
) -> Sample:
    changed: Sample = {}
    for name in masks:
        if name in sample:
            changed[name] = _moved_mask(sample[name], name, move_mask)
    objects = f"{base_of(feature)}/object"
    names = [f"{objects}/bbox/{corner}" for corner in _CORNERS]
    if names[0] not in sample:
        return changed
    before = np.stack([np.asarray(sample[name], np.float64).reshape(-1) for name in names], axis=1)
    after = move_boxes(before)
    kept = np.flatnonzero((after[:, 2] > after[:, 0]) & (after[:, 3] > after[:, 1]))
    for at, name in enumerate(names):
        changed[name] = after[kept, at].astype(np.float32)
    for name, value in sample.items():
        if name.startswith(f"{objects}/") and name not in names:
            changed[name] = _pick(value, kept, len(before), name)
    if f"{objects}/mask" in changed:
        changed[f"{objects}/mask"] = [_moved_mask(mask, objects, move_mask) for mask in changed[f"{objects}/mask"]]
    if f"{objects}/area" in changed:
        areas = np.asarray(changed[f"{objects}/area"], np.float64) * shares(before[kept], after[kept])
        changed[f"{objects}/area"] = areas.astype(np.float32)
    return changed


def _pick(value: Any, kept: NDArray[np.int64], count: int, name: str) -> Any:
    """Of what is told of objects, that of those that are left."""
    values = value.to_list() if hasattr(value, "to_list") else value
    if len(values) != count:
        raise SchemaMismatch(f"there are {count} boxes and {len(values)} values", at=name)
    return values[kept] if isinstance(values, np.ndarray) else [values[at] for at in kept.tolist()]


def _moved_mask(mask: Any, name: str, move: Callable[[NDArray[Any]], NDArray[Any]]) -> Any:
    if isinstance(mask, np.ndarray):
        return move(mask)
    if not isinstance(mask, bytes):
        raise SchemaMismatch(f"expected a mask as pixels or as a PNG, got {type(mask).__name__}", at=name)
    from PIL import Image

    with Image.open(io.BytesIO(mask)) as image:
        if image.mode not in ("L", "1", "P", "RGB", "RGBA", "I;16"):
            raise SchemaMismatch(f"masks must have 8 or 16 bits a pixel, got {image.mode}", at=name)
        palette = image.getpalette() if image.mode == "P" else None
        pixels = np.asarray(image.convert("L") if image.mode == "1" else image)
    moved = move(pixels)
    if palette is None:
        return encode_pixels(moved.reshape(*moved.shape[:2], -1), "png")
    out = io.BytesIO()
    made = Image.fromarray(moved, "P")
    made.putpalette(palette)
    made.save(out, "PNG")
    return out.getvalue()
