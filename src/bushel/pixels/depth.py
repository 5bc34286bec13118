"""Images of 16 bits per channel: decoded with all of them, and written as PNG.

Pillow has all 16 bits of grey images alone; of colours it unpacks one byte of two. Which one is a matter of the order
of bytes that it is told: unpacked in both orders, they are the upper and the lower half of each value.
"""

from __future__ import annotations

import io
import re
import struct
import sys
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.pixels.colours import to_channels
from bushel.pixels.decoding import JPEG, TIFF, WIDE, decode_pixels, orientation_of, refuse_planes, turn_pixels
from bushel.pixels.headers import BadImage, parse_header

__all__ = ["decode_wide", "encode_wide", "is_wide"]

_PNG = b"\x89PNG\r\n\x1a\n"
_COLOURS = re.compile(r"(RGB|RGBX|RGBA|RGBa|LA|CMYK);16([BLN])")  # 16 bits per channel, in Pillow's words
_OTHER = {"B": "L", "L": "B"}


def is_wide(data: bytes) -> bool:
    """Whether an image has 16 bits per channel, by its header."""
    if data[:8] == _PNG:
        return data[24:25] == b"\x10"
    if data[:4] not in TIFF:
        return False
    try:
        return parse_header(data).bits == 16
    except BadImage:
        return False


def decode_wide(data: bytes, channels: int | None = None, *, upright: bool = True) -> NDArray[np.uint16]:
    """Decode an image to uint16, height x width x channels; None: as many channels as it has.

    What has 8 bits per channel is multiplied by 257, so that white is 65535 in all. Raises as `decode_pixels` does.
    """
    pixels = None if data[:3] == JPEG else _decode(data)
    if pixels is None:
        return decode_pixels(data, channels, upright=upright).astype(np.uint16) * np.uint16(257)
    pixels = to_channels(pixels, channels or pixels.shape[2])
    is_turned = upright and data[:4] not in TIFF  # Pillow turns TIFFs itself
    return np.ascontiguousarray(turn_pixels(pixels, orientation_of(data)) if is_turned else pixels)


def _decode(data: bytes) -> NDArray[np.uint16] | None:
    """All bits of an image; None where there are but 8."""
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        refuse_planes(image)
        clear = image.info.get("transparency")
        if image.mode in WIDE:
            return _with_clear(np.clip(np.asarray(image), 0, 65535).astype(np.uint16)[..., None], clear)
        args = image.tile[0].args if image.tile else ""
        found = _COLOURS.fullmatch(str(args if isinstance(args, str) else args[0]))
    if found is None:
        return None
    mode, order = found.groups()
    if order == "N":
        order = "B" if sys.byteorder == "big" else "L"
    if mode == "LA":  # two values of two bytes, and so four bytes
        two = _unpack(data, "RGBA").view(">u2").astype(np.uint16)
        return np.ascontiguousarray(two[..., [0, 0, 0, 1]])
    mode = "RGBA" if mode == "RGBa" else mode
    upper, lower = (_unpack(data, f"{mode};16{letter}") for letter in (order, _OTHER[order]))
    pixels = upper.astype(np.uint16) * np.uint16(256) + lower
    if found[1] == "RGBa":
        return _by_alpha(pixels)
    return _without_ink(pixels) if mode == "CMYK" else _with_clear(pixels, clear)


def _unpack(data: bytes, raw_mode: str) -> NDArray[np.uint8]:
    """The bytes that Pillow takes from an image for another raw mode than the one it thinks of."""
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        image.tile = [
            tile._replace(args=raw_mode if isinstance(tile.args, str) else (raw_mode, *tile.args[1:]))
            for tile in image.tile
        ]
        return np.array(image)


def _with_clear(pixels: NDArray[np.uint16], clear: Any) -> NDArray[np.uint16]:
    """With an alpha that is 0 where a pixel has the colour that a PNG says is transparent."""
    if clear is None:
        return pixels
    alpha = np.where((pixels == np.asarray(clear)).all(axis=2), 0, 65535).astype(np.uint16)
    return np.concatenate([to_channels(pixels, 3), alpha[..., None]], axis=2)


def _by_alpha(pixels: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Colours that were multiplied by their alpha, as they were before."""
    alpha = np.maximum(pixels[..., 3:], 1).astype(np.float64)
    colours = np.minimum(np.rint(pixels[..., :3] * (65535 / alpha)), 65535).astype(np.uint16)
    return np.concatenate([colours, pixels[..., 3:]], axis=2)


def _without_ink(pixels: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """CMYK as RGB, as Pillow converts it."""
    paper = 65535 - pixels.astype(np.float64)
    return np.rint(paper[..., :3] * paper[..., 3:] / 65535).astype(np.uint16)


def encode_wide(pixels: NDArray[np.uint16]) -> bytes:
    """A PNG of 16 bits per channel, of height x width x 1, 3 or 4."""
    height, width, channels = pixels.shape
    rows = np.ascontiguousarray(pixels, ">u2").view(np.uint8).reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 16, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(_filtered(rows, 2 * channels))), (b"IEND", b""))
    return _PNG + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def _filtered(rows: NDArray[np.uint8], step: int) -> bytes:
    """Each row as it is, less what is left of it, or less what is above: whichever has the smallest values."""
    left, above = np.zeros_like(rows), np.zeros_like(rows)
    left[:, step:], above[1:] = rows[:, :-step], rows[:-1]
    ways = np.stack([rows, rows - left, rows - above])
    sums = np.minimum(ways, 0 - ways).sum(axis=2, dtype=np.int64)
    best = sums.argmin(axis=0)
    return np.column_stack([best.astype(np.uint8), ways[best, np.arange(len(rows))]]).tobytes()
