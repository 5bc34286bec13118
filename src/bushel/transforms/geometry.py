"""Where pixels go when an image is resized, cut, padded, flipped or turned; boxes and masks go with them."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel.errors import SchemaMismatch
from bushel.pixels.encoding import encode_pixels
from bushel.records import Sample

__all__ = ["Fit", "Move", "follow", "follow_rotation", "place"]

Fit: TypeAlias = Literal["stretch", "fit", "pad", "crop"]
FITS = ("stretch", "fit", "pad", "crop")
_CORNERS = ("xmin", "ymin", "xmax", "ymax")
Boxes: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Move:
    """A part of an image, resized, and put somewhere in another; perhaps flipped there. All in pixels."""

    of: tuple[int, int]  # height and width of the image
    part: tuple[int, int, int, int]  # top, left, height and width of what is taken
    size: tuple[int, int]  # to which it is resized
    at: tuple[int, int] = (0, 0)  # where it is put
    into: tuple[int, int] | None = None  # an image of this size; None: it is all there is
    flips: tuple[bool, bool] = (False, False)  # upside down, left to right

    @property
    def whole(self) -> tuple[int, int]:
        """The size of the image that is made."""
        return self.into or self.size

    def boxes(self, boxes: Boxes) -> Boxes:
        """Boxes (xmin, ymin, xmax, ymax, as shares) where they are now; what is outside is clipped."""
        found = boxes.astype(np.float64)
        for axis, flipped in ((1, self.flips[0]), (0, self.flips[1])):
            side = 1 - axis  # the y axis is the first of a size
            low, high = found[:, axis].copy(), found[:, axis + 2].copy()
            scale = self.size[side] / self.part[2 + side]
            low, high = ((v * self.of[side] - self.part[side]) * scale + self.at[side] for v in (low, high))
            low, high = low / self.whole[side], high / self.whole[side]
            start, end = self.at[side] / self.whole[side], (self.at[side] + self.size[side]) / self.whole[side]
            low, high = np.clip(low, start, end), np.clip(high, start, end)
            found[:, axis], found[:, axis + 2] = (1 - high, 1 - low) if flipped else (low, high)
        return found

    def shares(self, before: Boxes, after: Boxes) -> NDArray[np.float64]:
        """By how much areas of objects, in pixels, change: they are scaled, and less by what was cut off the box."""
        was = (before[:, 2] - before[:, 0]) * self.of[1] * (before[:, 3] - before[:, 1]) * self.of[0]
        now = (after[:, 2] - after[:, 0]) * self.whole[1] * (after[:, 3] - after[:, 1]) * self.whole[0]
        return np.asarray(now / np.maximum(was, 1e-12))

    def mask(self, mask: NDArray[Any]) -> NDArray[Any]:
        """A mask moved as the image is, each pixel that of the nearest; what is padded is 0."""
        picked = []
        for side in (0, 1):
            centres = self.part[side] + (np.arange(self.size[side]) + 0.5) * self.part[2 + side] / self.size[side]
            scaled = centres * (mask.shape[side] / self.of[side])
            picked.append(np.minimum(scaled.astype(np.int64), mask.shape[side] - 1))
        found = mask[picked[0][:, None], picked[1]]
        if self.into is not None:
            canvas = np.zeros((*self.into, *mask.shape[2:]), mask.dtype)
            canvas[self.at[0] : self.at[0] + self.size[0], self.at[1] : self.at[1] + self.size[1]] = found
            found = canvas
        return np.ascontiguousarray(found[:: -1 if self.flips[0] else 1, :: -1 if self.flips[1] else 1])


def place(size: tuple[int, int], height: int, width: int, fit: Fit, at: tuple[float, float] = (0.5, 0.5)) -> Move:
    """How an image of a size becomes one of height x width; `at` says where what does not fit is cut or padded."""
    tall, wide = size
    whole = (0, 0, tall, wide)
    if fit == "stretch":
        return Move(size, whole, (height, width))
    if fit == "crop":  # the largest part of the wanted shape
        part = (tall, max(1, min(wide, round(tall * width / height))))
        if tall * width > wide * height:
            part = (max(1, min(tall, round(wide * height / width))), wide)
        top, left = (int(at[i] * (size[i] - part[i])) for i in (0, 1))
        return Move(size, (top, left, *part), (height, width))
    # As tf.image.resize_with_pad: the side that is too long decides, the other is cut to whole pixels.
    inner = (height, max(1, wide * height // tall))
    if tall * width < wide * height:
        inner = (max(1, tall * width // wide), width)
    if fit == "fit":
        return Move(size, whole, inner)
    exact = (min(height, tall * width / wide), min(width, wide * height / tall))
    place_at = (int(at[0] * (height - exact[0])), int(at[1] * (width - exact[1])))
    return Move(size, whole, inner, place_at, (height, width))


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
        if image.mode not in ("L", "1", "P", "RGB", "RGBA"):
            raise SchemaMismatch(f"masks must have 8 bits a pixel, got {image.mode}", at=name)
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
