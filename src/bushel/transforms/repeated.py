"""Samples that come again for balance, each changed in its own way. Encoded images are decoded, and encoded again."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bushel.records import Sample
from bushel.transforms.image import DecodeImage
from bushel.transforms.protocol import Draw, Transform

__all__ = ["vary"]

_QUALITY = 95  # of JPEGs


def vary(sample: Sample, transforms: Sequence[Transform], draw: Draw) -> Sample:
    """The sample behind transforms, with images encoded as they were; `draw` is the first step's."""
    formats: dict[str, str] = {}
    for number, transform in enumerate(transforms):
        feature = getattr(transform, "feature", None)
        if isinstance(feature, str) and isinstance(sample.get(feature), bytes):
            formats[feature], channels = _told(sample[feature])
            sample = DecodeImage(feature, channels).apply(sample, draw)
        sample = transform.apply(sample, replace(draw, step=draw.step + number))
    for feature, form in formats.items():
        pixels = sample[feature]
        sizes = {f"{feature}/height": pixels.shape[0], f"{feature}/width": pixels.shape[1]}
        known = {name: size for name, size in sizes.items() if name in sample}
        sample = {**sample, feature: _encoded(pixels, form), **known}
    return sample


def _told(data: bytes) -> tuple[str, Any]:
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        if image.mode in ("1", "L", "I;16"):
            return image.format or "PNG", 1
        return image.format or "PNG", 4 if image.mode in ("RGBA", "LA", "PA") and image.format != "JPEG" else 3


def _encoded(pixels: Any, form: str) -> bytes:
    pixels = np.ascontiguousarray(np.clip(np.rint(pixels), 0, 255).astype(np.uint8))
    if form == "JPEG":
        import simplejpeg

        return bytes(simplejpeg.encode_jpeg(pixels, _QUALITY, "GRAY" if pixels.shape[2] == 1 else "RGB"))
    from PIL import Image

    out = io.BytesIO()
    settings: dict[str, Any] = {"lossless": True} if form == "WEBP" else {}
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(out, form, **settings)
    return out.getvalue()
