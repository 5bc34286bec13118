"""Pixels to encoded images."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.pixels.depth import encode_wide
from bushel.pixels.headers import FORMATS

__all__ = ["ENCODED", "Encoded", "encode_pixels"]

_MOST_SIDE = 65500  # of a JPEG that libjpeg writes; what is larger is refused by simplejpeg's words
ENCODED = tuple(name for name, format in FORMATS.items() if format.is_written)
if TYPE_CHECKING:
    Encoded: TypeAlias = str
else:
    Encoded = Literal[ENCODED]


def encode_pixels(pixels: NDArray[Any], form: str, quality: int = 95) -> bytes:
    """Encode uint8 pixels of height x width x 1, 3 or 4; as PNG, uint16 ones too.

    A JPEG leaves out alpha, and has half the colour resolution, as is usual.
    JPEGs of a quality below 96 are made with libjpeg-turbo's fast DCT, others with its accurate one.
    """
    if pixels.dtype == np.uint16:
        if form != "png":
            raise ValueError(f"{form} has 8 bits per channel; 16 bits are stored as png or raw")
        return encode_wide(pixels)
    if form == "jpeg":
        if pixels.shape[2] == 4:
            pixels = pixels[..., :3]
        if _native.codecs()["jpeg"] and min(pixels.shape) > 0 and max(pixels.shape) <= _MOST_SIDE:
            return cast("bytes", _native.encode_jpeg(np.ascontiguousarray(pixels), quality))
        import simplejpeg

        colours = "GRAY" if pixels.shape[2] == 1 else "RGB"
        sampling = "Gray" if pixels.shape[2] == 1 else "420"
        return bytes(simplejpeg.encode_jpeg(np.ascontiguousarray(pixels), quality, colours, sampling, fastdct=False))
    from PIL import Image

    out = io.BytesIO()
    image = Image.fromarray(np.ascontiguousarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels))
    image.save(out, form.upper(), **({"quality": quality} if FORMATS[form].has_quality else {}))
    return out.getvalue()
