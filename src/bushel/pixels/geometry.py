"""Where pixels go when an image is resized, cropped, padded or flipped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.pixels.codecs import as_pixels

Fit: TypeAlias = Literal["stretch", "fit", "pad", "crop"]
FITS = ("stretch", "fit", "pad", "crop")
Boxes: TypeAlias = NDArray[np.float64]  # xmin, ymin, xmax, ymax, as shares of the image


@dataclass(frozen=True)
class Move:
    """A part of an image that is resized, placed in another image, and possibly flipped. All in pixels."""

    of: tuple[int, int]  # height and width of the image
    part: tuple[int, int, int, int]  # top, left, height and width of the part
    size: tuple[int, int]  # the size after resizing
    at: tuple[int, int] = (0, 0)  # where it goes
    into: tuple[int, int] | None = None  # the size of the new image; None: that of the part
    flips: tuple[bool, bool] = (False, False)  # vertically, horizontally

    @property
    def whole(self) -> tuple[int, int]:
        """The size of the resulting image."""
        return self.into or self.size

    def boxes(self, boxes: Boxes) -> Boxes:
        """Boxes (xmin, ymin, xmax, ymax, as shares) after the move, clipped to the image."""
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
        """By how much areas of objects, in pixels, change: scaled, and reduced by what was cut off the box."""
        was = (before[:, 2] - before[:, 0]) * self.of[1] * (before[:, 3] - before[:, 1]) * self.of[0]
        now = (after[:, 2] - after[:, 0]) * self.whole[1] * (after[:, 3] - after[:, 1]) * self.whole[0]
        return np.asarray(now / np.maximum(was, 1e-12))

    def mask(self, mask: NDArray[Any]) -> NDArray[Any]:
        """A mask moved like its image, with nearest-neighbour values; padding is 0."""
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
    """The move from an image of this size to height x width; `at` says where to crop or pad what does not fit."""
    tall, wide = size
    whole = (0, 0, tall, wide)
    if fit == "stretch":
        return Move(size, whole, (height, width))
    if fit == "crop":  # the largest part with the wanted aspect ratio
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


Kernel: TypeAlias = Literal["bilinear", "area", "bicubic"]
KERNELS = {"bilinear": _native.Kernel.BILINEAR, "area": _native.Kernel.AREA, "bicubic": _native.Kernel.BICUBIC}


def moved(image: NDArray[Any], move: Move, dtype: np.dtype[Any], how: Any) -> NDArray[Any]:
    """The pixels of an image after a move; `how` has kernel, antialias and fill."""
    top, left, height, width = move.part
    part = image[top : top + height, left : left + width]
    pixels = resize_pixels(part, *move.size, dtype, antialias=how.antialias, kernel=how.kernel)
    if move.into is None:
        return pixels
    canvas = np.full((*move.into, image.shape[2]), how.fill, dtype)
    canvas[move.at[0] : move.at[0] + move.size[0], move.at[1] : move.at[1] + move.size[1]] = pixels
    return canvas


def resize_pixels(
    image: NDArray[Any],
    height: int,
    width: int,
    dtype: np.dtype[Any],
    *,
    antialias: bool = False,
    kernel: Kernel = "bilinear",
) -> NDArray[Any]:
    """Pixels resized, as uint8, uint16 or float32; uint16 to uint8 keeps the upper 8 bits."""
    image = np.ascontiguousarray(image)
    out: Any
    if image.dtype == np.uint8:
        make = _native.resize_to_bytes if dtype == np.uint8 else _native.resize_to_floats
        out = make(image, height, width, antialias, KERNELS[kernel])
    else:
        values = image.astype(np.float32, copy=False)
        out = _native.resize_floats(values, height, width, antialias, KERNELS[kernel])
        is_cut = image.dtype == np.uint16 and dtype == np.uint8
        out = as_pixels(out, image.dtype if is_cut else dtype)
        if is_cut:
            out = (out >> 8).astype(np.uint8)
    return out  # type: ignore[no-any-return]
