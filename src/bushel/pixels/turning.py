"""Pixels turned as EXIF data ask for."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

__all__ = ["turn_pixels"]


def turn_pixels(pixels: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Pixels of an image that EXIF says to turn, upright."""
    turned: dict[int, Any] = {
        2: lambda: pixels[:, ::-1],
        3: lambda: pixels[::-1, ::-1],
        4: lambda: pixels[::-1],
        5: lambda: pixels.swapaxes(0, 1),
        6: lambda: pixels[::-1].swapaxes(0, 1),
        7: lambda: pixels[::-1, ::-1].swapaxes(0, 1),
        8: lambda: pixels.swapaxes(0, 1)[::-1],
    }
    found: NDArray[Any] = turned[orientation]() if orientation in turned else pixels
    return found
