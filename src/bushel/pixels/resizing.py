"""Pixels to another size."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.pixels.colours import as_pixels
from bushel.pixels.placing import Move

__all__ = ["KERNELS", "Kernel", "moved", "resize_pixels"]

Kernel: TypeAlias = Literal["bilinear", "area", "bicubic"]
KERNELS = {"bilinear": _native.Kernel.BILINEAR, "area": _native.Kernel.AREA, "bicubic": _native.Kernel.BICUBIC}


def moved(image: NDArray[Any], move: Move, dtype: np.dtype[Any], how: Any) -> NDArray[Any]:
    """The pixels of an image as a move has them; `how` tells kernel, antialias and fill."""
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
    """Pixels resized, as uint8, uint16 or float32; what was uint16 keeps its upper 8 bits as uint8."""
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
