"""Encoded images to other encoded images: what a build stores small."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import numpy as np

from bushel.errors import SchemaMismatch
from bushel.records import Sample
from bushel.transforms.image import resize_pixels
from bushel.transforms.protocol import Draw
from bushel.transforms.values import value_of

__all__ = ["resize_encoded"]


class ResizeEncoded(msgspec.Struct, frozen=True, tag="resize_encoded"):
    """An encoded image to one size, encoded again in its own format; `FEATURE/height` and `FEATURE/width` follow."""

    feature: str
    height: int
    width: int
    quality: int = 95  # of JPEGs

    def __post_init__(self) -> None:
        for name in ("height", "width"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Decode, resize with every pixel counted, and encode."""
        data = value_of(sample, self.feature)
        if not isinstance(data, bytes):
            raise SchemaMismatch(f"expected the bytes of an image, got {type(data).__name__}", at=self.feature)
        sizes = {f"{self.feature}/height": self.height, f"{self.feature}/width": self.width}
        known = {name: size for name, size in sizes.items() if name in sample}
        return {**sample, self.feature: self._resized(data), **known}

    def _resized(self, data: bytes) -> bytes:
        from PIL import Image

        try:
            with Image.open(io.BytesIO(data)) as image:
                form, is_grey = image.format, image.mode in ("1", "L", "I;16")
                has_alpha = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
                mode = "L" if is_grey else "RGBA" if has_alpha and form != "JPEG" else "RGB"
                pixels = np.array(image.convert(mode))
        except (ValueError, OSError, SyntaxError) as error:
            raise SchemaMismatch(f"the image cannot be decoded: {error}", at=self.feature) from None
        pixels = pixels.reshape(*pixels.shape[:2], -1)
        resized = resize_pixels(pixels, self.height, self.width, np.dtype(np.uint8), antialias=True)
        return self._encoded(resized, form)

    def _encoded(self, pixels: Any, form: str | None) -> bytes:
        if form == "JPEG":
            import simplejpeg

            colours = "GRAY" if pixels.shape[2] == 1 else "RGB"
            return bytes(simplejpeg.encode_jpeg(np.ascontiguousarray(pixels), self.quality, colours))
        from PIL import Image

        out = io.BytesIO()
        Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(out, form or "PNG")
        return out.getvalue()


resize_encoded = ResizeEncoded
