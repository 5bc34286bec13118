"""Numbers of channels: grey, colours, colours with alpha."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["as_pixels", "full_of", "to_channels"]

_GREY = np.array([0.299, 0.587, 0.114], np.float32)


def full_of(dtype: np.dtype[Any]) -> int:
    """White, and an alpha that lets nothing through: 65535 of uint16, 255 of uint8, and of floats that were uint8."""
    return 65535 if dtype == np.uint16 else 255


def as_pixels(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Floats as pixels of a dtype: rounded and clipped to its range, unless they may stay floats."""
    if dtype == np.float32:
        return values.astype(np.float32, copy=False)
    return np.asarray(np.clip(np.rint(values), 0, full_of(dtype)), dtype)


def to_channels(image: NDArray[Any], channels: int) -> NDArray[Any]:
    """Pixels of 1, 3 or 4 channels with so many of them; alpha is dropped, or full."""
    if image.shape[2] == channels:
        return image
    colours = image[..., :3] if image.shape[2] == 4 else image
    if channels == 1:
        if colours.shape[2] == 1:
            return colours
        grey = (colours @ _GREY)[..., None]
        return grey.astype(np.float32) if image.dtype == np.float32 else np.floor(grey + 0.5).astype(image.dtype)
    colours = np.repeat(colours, 3, axis=2) if colours.shape[2] == 1 else colours
    if channels == 3:
        return np.ascontiguousarray(colours)
    return np.concatenate([colours, np.full_like(colours[..., :1], full_of(image.dtype))], axis=2)
