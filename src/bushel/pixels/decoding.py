"""Encoded images to uint8 pixels: JPEG and PNG by the core, what it does not know by simplejpeg and Pillow."""

from __future__ import annotations

import io
import os
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.pixels.headers import BadImage, parse_header

__all__ = ["MOST_PIXELS", "decode_pixels", "decode_without_core", "format_of", "orientation_of", "turn_pixels"]


def turn_pixels(pixels: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Pixels of an image turned upright, as EXIF asks."""
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


JPEG = b"\xff\xd8\xff"
TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
MODES = {1: ("GRAY", "L"), 3: ("RGB", "RGB"), 4: ("RGBA", "RGBA")}
_SCAN = b"\xff\xda"  # begins the pixels of a JPEG, and of a thumbnail within its EXIF data: those stand before both
# Pixels are mostly resized and dropped: memory that was dropped is taken again, since the system clears what it gives.
_POOL = _native.Pool(max(8, os.cpu_count() or 1))
_POOLED_BYTES = 4 << 20  # larger images are too few, and too much to keep
_BITS, _PLANAR = 258, 284  # tags of TIFFs
MOST_PIXELS = 2**28  # an image of few bytes can ask for more memory than there is
WIDE = ("I;16", "I;16B", "I;16L", "I;16N", "I")  # 16 bits a pixel, in Pillow's words


def decode_pixels(
    data: bytes,
    channels: int | None = None,
    *,
    upright: bool = True,
    at_least: tuple[int, int] | None = None,
    most_pixels: int = MOST_PIXELS,
) -> NDArray[np.uint8]:
    """Decode an image to height x width x channels; None: as many channels as it has.

    With `at_least`, a JPEG that is twice this size or more is decoded at half, quarter or eighth size. Of a GIF, or an
    animated WebP or TIFF, the first frame is taken. 16 bits per channel are cut to their upper 8; `depth.decode_wide`
    has them all. Raises ValueError, OSError or SyntaxError for what cannot be decoded, damaged JPEGs included, which
    other readers fill up with grey, and images of more than `most_pixels`.
    """
    painting = _native.Painting(upright=upright, at_least=at_least or (0, 0), most_pixels=most_pixels)
    (found,), refused = _native.decode_each(np.array([0, len(data)]), data, channels or 0, painting)
    if found is not None:
        return cast("NDArray[np.uint8]", found)
    if refused[0][1] == _native.Outcome.TOO_LARGE:
        raise ValueError(f"it has more than {most_pixels:,} pixels")
    return decode_without_core(data, channels, upright=upright, at_least=at_least)


def decode_without_core(
    data: bytes, channels: int | None = None, *, upright: bool = True, at_least: tuple[int, int] | None = None
) -> NDArray[np.uint8]:
    """The same for all kinds of images, or what is wrong with one: the core knows few kinds, and few words."""
    if data[:3] == JPEG:
        pixels = _decode_jpeg(data, channels, at_least)
        if pixels is not None:
            return np.ascontiguousarray(turn_pixels(pixels, orientation_of(data))) if upright else pixels
    pixels = _decode_other(data, channels)
    is_turned = upright and data[:4] not in TIFF  # Pillow turns TIFFs itself
    return np.ascontiguousarray(turn_pixels(pixels, orientation_of(data))) if is_turned else pixels


def orientation_of(data: bytes) -> int:
    """The orientation that EXIF data ask for; 1 is upright."""
    if data[:3] == JPEG and data.find(b"Exif\0\0", 0, data.find(_SCAN)) < 0:
        return 1
    try:
        return parse_header(data).orientation
    except BadImage:
        return 1


def format_of(data: bytes) -> str:
    """The format of an image, by its bytes. Raises ValueError where it is none."""
    if data[:3] == JPEG:
        return "jpeg"
    try:
        return parse_header(data).format
    except BadImage as error:
        raise ValueError(str(error)) from None


def _decode_jpeg(data: bytes, channels: int | None, at_least: tuple[int, int] | None) -> NDArray[np.uint8] | None:
    """None where it is of a rare kind, which Pillow decodes."""
    import simplejpeg

    height, width = at_least or (0, 0)
    scaled = {"min_height": height, "min_width": width, "min_factor": 2}
    try:
        *size, colours, _ = simplejpeg.decode_jpeg_header(data, **scaled)
        wanted = channels or (1 if colours == "Gray" else 3)
        buffer = _memory(size[0] * size[1] * wanted)
        pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(data, colorspace=MODES[wanted][0], **scaled, buffer=buffer)
    except ValueError as error:
        if _is_rare(data, error):
            return None
        raise ValueError(str(error).removeprefix("b'").rstrip("'")) from None
    return pixels


def _memory(size: int) -> Any:
    """Memory for so many bytes, or a little more, so that images of nearly the same size share it; None: fresh."""
    if size > _POOLED_BYTES:
        return None
    step = 1 << max(12, size.bit_length() - 4)
    return _POOL.empty(-(-size // step) * step)


def _is_rare(data: bytes, error: ValueError) -> bool:
    try:
        return "subsampling" in str(error) or parse_header(data).channels not in (1, 3)
    except BadImage:
        return False


def _decode_other(data: bytes, channels: int | None) -> NDArray[np.uint8]:
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        refuse_planes(image)
        if image.mode in WIDE:
            wide = np.asarray(image)
            pixels = (np.clip(wide, 0, 65535) >> 8).astype(np.uint8)
            return _grey_to(pixels, channels or 1)
        pixels = np.array(image.convert(MODES[channels or _own_channels(image)][1]))
    return pixels.reshape(*pixels.shape[:2], -1)


def refuse_planes(image: Any) -> None:
    """Refuse TIFFs that keep channels of 16 bits apart, of which Pillow makes noise."""
    tags = getattr(image, "tag_v2", {})
    if tags.get(_PLANAR) == 2 and len(tags.get(_BITS, ())) > 1 and max(tags[_BITS]) > 8:
        raise ValueError("a TIFF with a plane for each channel can have 8 bits per channel only")


def _grey_to(pixels: NDArray[np.uint8], channels: int) -> NDArray[np.uint8]:
    out = np.repeat(pixels[..., None], channels, axis=2)
    if channels == 4:
        out[..., 3] = 255
    return out


def _own_channels(image: Any) -> int:
    if image.mode in ("1", "L"):
        return 4 if "transparency" in image.info else 1
    return 4 if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info else 3
