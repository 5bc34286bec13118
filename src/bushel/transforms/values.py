"""What all transforms ask of a sample."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.errors import MissingName, SchemaMismatch
from bushel.records import Sample

__all__ = ["array_of", "image_of", "value_of"]

_PIXELS = "BHf"  # uint8, uint16 and float32, as NumPy abbreviates them


def value_of(sample: Sample, feature: str) -> Any:
    """The value of a feature that must be there."""
    if feature not in sample:
        raise MissingName("feature", feature, sample, where="transform")
    return sample[feature]


def array_of(sample: Sample, feature: str) -> NDArray[Any]:
    """The value of a feature that must be numbers."""
    array = np.asarray(value_of(sample, feature))
    if array.dtype.kind not in "biuf":
        raise SchemaMismatch(f"expected numbers, got {type(sample[feature]).__name__}", at=feature)
    return array


def image_of(sample: Sample, feature: str) -> NDArray[Any]:
    """The value of a feature that must be pixels: height x width x channels, uint8, uint16 or float32."""
    value = value_of(sample, feature)
    if not isinstance(value, np.ndarray) or value.ndim != 3 or value.dtype.char not in _PIXELS:
        got = f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
        help = [f"Decode it first: transforms.decode_image({feature!r})"] if isinstance(value, bytes) else []
        raise SchemaMismatch(f"expected pixels (height, width, channels), got {got}", at=feature, help=help)
    return value
