"""Images to pixels and back, and where pixels go when an image is resized, cropped, padded or flipped."""

from __future__ import annotations

import importlib.util
import io
import os
import re
import struct
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.errors import missing_package
from bushel.pixels.headers import FORMATS, BadImage, parse_header

__all__ = [
    "ENCODED",
    "FITS",
    "KERNELS",
    "MOST_PIXELS",
    "Boxes",
    "Encoded",
    "Fit",
    "Kernel",
    "Move",
    "as_pixels",
    "decode_pixels",
    "decode_wide",
    "decode_without_core",
    "encode_pixels",
    "encode_wide",
    "format_of",
    "full_of",
    "is_wide",
    "moved",
    "on_background",
    "orientation_of",
    "place",
    "resize_pixels",
    "to_channels",
    "turn_pixels",
]


_GREY = np.array([0.299, 0.587, 0.114], np.float32)


def full_of(dtype: np.dtype[Any]) -> int:
    """The value of white and of an opaque alpha: 65535 for uint16, 255 for uint8 and for floats that were uint8."""
    return 65535 if dtype == np.uint16 else 255


def as_pixels(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Floats as pixels of a dtype: rounded and clipped to its range, unless it is a float type."""
    if dtype == np.float32:
        return values.astype(np.float32, copy=False)
    return np.asarray(np.clip(np.rint(values), 0, full_of(dtype)), dtype)


def to_channels(image: NDArray[Any], channels: int) -> NDArray[Any]:
    """Pixels of 1, 3 or 4 channels with so many of them; alpha is put on white, or full."""
    if image.shape[2] == channels:
        return image
    colours = on_background(image) if image.shape[2] == 4 else image
    if channels == 1:
        if colours.shape[2] == 1:
            return colours
        grey = (colours @ _GREY)[..., None]
        return grey.astype(np.float32) if image.dtype == np.float32 else np.floor(grey + 0.5).astype(image.dtype)
    colours = np.repeat(colours, 3, axis=2) if colours.shape[2] == 1 else colours
    if channels == 3:
        return np.ascontiguousarray(colours)
    return np.concatenate([colours, np.full_like(colours[..., :1], full_of(image.dtype))], axis=2)


def decoders() -> dict[str, str]:
    """What decodes and encodes JPEG and PNG here, with its version; other formats are Pillow's."""
    return {form: library or _FALLBACKS[form] for form, library in _IN_CORE.items()}


_IN_CORE = _native.codecs()  # the library for each format; empty: none
_FALLBACKS = {"jpeg": "simplejpeg", "png": "Pillow"}
CODEC_WORDS = "images: {jpeg} for JPEG, {png} for PNG, Pillow for others"


def on_background(image: NDArray[Any], background: Sequence[int] = (255, 255, 255)) -> NDArray[Any]:
    """Colours with alpha as they look on a background, given as uint8 has it; without an alpha then."""
    full = full_of(image.dtype)
    under = np.asarray(background, np.int64) * (full // 255)
    if image.dtype == np.float32:
        alpha = image[..., 3:] / full
        return np.asarray(image[..., :3] * alpha + under.astype(np.float32) * (1 - alpha), np.float32)
    alpha = image[..., 3:].astype(np.int64)
    mixed = (image[..., :3] * alpha + under * (full - alpha) + full // 2) // full
    return mixed.astype(image.dtype)


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
_SCAN = b"\xff\xda"  # begins the pixels of a JPEG, or of a thumbnail in its EXIF data; EXIF data come before both
# Pixels are usually resized and dropped. Their memory is reused, because the system clears fresh memory.
_POOL = _native.Pool(max(8, os.cpu_count() or 1))
_POOLED_BYTES = 4 << 20  # larger images are too rare, and too large to keep
_BITS, _PLANAR, _SMALLEST, _LARGEST = 258, 284, 340, 341  # tags of TIFFs
MOST_PIXELS = 2**28  # a small file can claim more memory than there is
WIDE = ("I;16", "I;16B", "I;16L", "I;16N", "I")  # Pillow's names for 16 bits per pixel


def decode_pixels(
    data: bytes,
    channels: int | None = None,
    *,
    upright: bool = True,
    at_least: tuple[int, int] | None = None,
    most_pixels: int = MOST_PIXELS,
) -> NDArray[np.uint8]:
    """Decode an image to height x width x channels; None: as many channels as it has.

    With `at_least`, a JPEG that is twice this size or more is decoded at half, quarter or eighth size. Of a GIF,
    or an animated WebP or TIFF, the first frame is used. 16 bits per channel are cut to their upper 8; `decode_wide`
    keeps all of them. Raises ValueError, OSError or SyntaxError for what cannot be decoded. That includes damaged
    JPEGs, which other readers fill up with grey, and images of more than `most_pixels`.
    """
    painting = _native.Painting(upright=upright, at_least=at_least or (0, 0), most_pixels=most_pixels)
    (found,), refused = _native.decode_each(np.array([0, len(data)]), data, channels or 0, painting)
    if found is not None:
        return cast("NDArray[np.uint8]", found)
    _, outcome, words = refused[0]
    if outcome == _native.Outcome.TOO_LARGE:
        raise ValueError(f"it has more than {most_pixels:,} pixels")
    if data[:3] == JPEG and outcome == _native.Outcome.DAMAGED:  # Pillow would fill it up with grey
        raise ValueError(words)
    return decode_without_core(data, channels, upright=upright, at_least=at_least)


def decode_without_core(
    data: bytes, channels: int | None = None, *, upright: bool = True, at_least: tuple[int, int] | None = None
) -> NDArray[np.uint8]:
    """The same for all kinds of images, with a message if one fails: the core knows few kinds."""
    if data[:3] == JPEG and has_simplejpeg():
        pixels = _decode_jpeg(data, channels, at_least)
        if pixels is not None:
            return np.ascontiguousarray(turn_pixels(pixels, orientation_of(data))) if upright else pixels
    check_png(data)
    pixels = _decode_other(data, channels)
    is_turned = upright and data[:4] not in TIFF  # Pillow turns TIFFs itself
    return np.ascontiguousarray(turn_pixels(pixels, orientation_of(data))) if is_turned else pixels


def check_png(data: bytes) -> None:
    """Refuse a PNG with a wrong checksum in a chunk that all readers need: Pillow decodes its pixels all the same."""
    at = len(_PNG) if data.startswith(_PNG) else len(data)
    while at + 12 <= len(data):
        end = at + 8 + int.from_bytes(data[at : at + 4], "big")
        kind, crc = data[at + 4 : at + 8], data[end : end + 4]
        if len(crc) == 4 and kind[:1].isupper() and zlib.crc32(data[at + 4 : end]) != int.from_bytes(crc, "big"):
            name = kind.decode(errors="replace")
            raise ValueError(f"the PNG is damaged: the checksum of its chunk {name} does not match")
        at = end + 4


def orientation_of(data: bytes) -> int:
    """The orientation in EXIF data; 1 is upright."""
    if data[:3] == JPEG and data.find(b"Exif\0\0", 0, data.find(_SCAN)) < 0:
        return 1
    try:
        return parse_header(data).orientation
    except BadImage:
        return 1


def format_of(data: bytes) -> str:
    """The format of an image, by its bytes. Raises ValueError if it is not an image."""
    if data[:3] == JPEG:
        return "jpeg"
    try:
        return parse_header(data).format
    except BadImage as error:
        raise ValueError(str(error)) from None


def has_simplejpeg() -> bool:
    """Whether simplejpeg is installed: without libjpeg-turbo in the core, nothing else finds damage in JPEGs."""
    if importlib.util.find_spec("simplejpeg") is not None:
        return True
    if not _IN_CORE["jpeg"]:
        raise missing_package("simplejpeg", extra="jpeg", purpose="a bushel that was compiled without libjpeg-turbo")
    return False


def _decode_jpeg(data: bytes, channels: int | None, at_least: tuple[int, int] | None) -> NDArray[np.uint8] | None:
    """None if it is a rare kind, which Pillow decodes."""
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
    """Memory for this many bytes, or a little more, so that images of similar size share it; None for fresh memory."""
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
        if image.mode == "F":
            return _grey_to((_scaled(image) * 255 + 0.5).astype(np.uint8), channels or 1)
        own = _own_channels(image)
        if own == 4 and channels in (1, 3):
            image = Image.fromarray(on_background(np.asarray(image.convert("RGBA"))))  # noqa: PLW2901
        pixels = np.array(image.convert(MODES[channels or own][1]))
    return pixels.reshape(*pixels.shape[:2], -1)


def _scaled(image: Any) -> NDArray[np.float64]:
    """Pixels that are floats, from 0 to 1 between the smallest and the largest value that a TIFF says it has."""
    tags = getattr(image, "tag_v2", {})
    low, high = (_first(tags.get(tag)) for tag in (_SMALLEST, _LARGEST))
    if low is None or high is None or not low < high:
        raise ValueError(
            "its pixels are floats, and it does not say which are black and white: scale it to 8 or 16 bits"
        )
    return np.clip((np.asarray(image, np.float64) - low) / (high - low), 0, 1)


def _first(value: Any) -> float | None:
    value = value[0] if isinstance(value, tuple) and value else value
    return float(value) if isinstance(value, int | float) else None


def refuse_planes(image: Any) -> None:
    """Refuse TIFFs with 16-bit channels in separate planes, which Pillow decodes to noise."""
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


_PNG = b"\x89PNG\r\n\x1a\n"
_COLOURS = re.compile(r"(RGB|RGBX|RGBA|RGBa|LA|CMYK);16([BLN])")  # Pillow's names for 16 bits per channel
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

    Values of 8 bits are multiplied by 257, so that white is always 65535. Raises as `decode_pixels` does.
    """
    check_png(data)
    pixels = None if data[:3] == JPEG else _decode(data)
    if pixels is None:
        return decode_pixels(data, channels, upright=upright).astype(np.uint16) * np.uint16(257)
    pixels = to_channels(pixels, channels or pixels.shape[2])
    is_turned = upright and data[:4] not in TIFF  # Pillow turns TIFFs itself
    return np.ascontiguousarray(turn_pixels(pixels, orientation_of(data)) if is_turned else pixels)


def _decode(data: bytes) -> NDArray[np.uint16] | None:
    """All bits of an image; None if it has only 8 per channel."""
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        refuse_planes(image)
        clear = image.info.get("transparency")
        if image.mode in WIDE:
            return _with_clear(np.clip(np.asarray(image), 0, 65535).astype(np.uint16)[..., None], clear)
        if image.mode == "F":
            return (_scaled(image) * 65535 + 0.5).astype(np.uint16)[..., None]
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
    """The bytes that Pillow reads from an image in another raw mode than its own."""
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        image.tile = [
            tile._replace(args=raw_mode if isinstance(tile.args, str) else (raw_mode, *tile.args[1:]))
            for tile in image.tile
        ]
        return np.array(image)


def _with_clear(pixels: NDArray[np.uint16], clear: Any) -> NDArray[np.uint16]:
    """Add an alpha channel that is 0 where a pixel has the transparent colour of a PNG."""
    if clear is None:
        return pixels
    alpha = np.where((pixels == np.asarray(clear)).all(axis=2), 0, 65535).astype(np.uint16)
    return np.concatenate([to_channels(pixels, 3), alpha[..., None]], axis=2)


def _by_alpha(pixels: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Undo the multiplication of colours by alpha."""
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
    """Each row with the PNG filter that gives the smallest values: none, left or above."""
    left, above = np.zeros_like(rows), np.zeros_like(rows)
    left[:, step:], above[1:] = rows[:, :-step], rows[:-1]
    ways = np.stack([rows, rows - left, rows - above])
    sums = np.minimum(ways, 0 - ways).sum(axis=2, dtype=np.int64)
    best = sums.argmin(axis=0)
    return np.column_stack([best.astype(np.uint8), ways[best, np.arange(len(rows))]]).tobytes()


_MOST_SIDE = 65500  # of a JPEG
ENCODED = tuple(name for name, format in FORMATS.items() if format.is_written)
if TYPE_CHECKING:
    Encoded: TypeAlias = str
else:
    Encoded = Literal[ENCODED]


def encode_pixels(pixels: NDArray[Any], form: str, quality: int = 95) -> bytes:
    """Encode uint8 pixels of height x width x 1, 3 or 4; as PNG, uint16 ones too.

    A JPEG has alpha put on white, and has half the colour resolution, as is usual.
    JPEGs of a quality below 96 are made with libjpeg-turbo's fast DCT, others with its accurate one.
    """
    if pixels.dtype == np.uint16:
        if form != "png":
            raise ValueError(f"{form} has 8 bits per channel; 16 bits are stored as png or raw")
        return encode_wide(pixels)
    if form == "jpeg" and pixels.shape[2] == 4:
        pixels = on_background(pixels)
    if form == "jpeg" and not 0 < min(pixels.shape[:2]) <= max(pixels.shape[:2]) <= _MOST_SIDE:
        height, width = pixels.shape[:2]
        raise ValueError(f"an image of {width}x{height} pixels cannot be a JPEG: a side has 1 to {_MOST_SIDE:,}")
    if _IN_CORE.get(form) and min(pixels.shape) > 0:
        pixels = np.ascontiguousarray(pixels)
        made = _native.encode_png(pixels) if form == "png" else _native.encode_jpeg(pixels, quality)
        return cast("bytes", made)
    if form == "jpeg" and has_simplejpeg():
        import simplejpeg

        colours = "GRAY" if pixels.shape[2] == 1 else "RGB"
        sampling = "Gray" if pixels.shape[2] == 1 else "420"
        return bytes(simplejpeg.encode_jpeg(np.ascontiguousarray(pixels), quality, colours, sampling, fastdct=False))
    from PIL import Image

    out = io.BytesIO()
    image = Image.fromarray(np.ascontiguousarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels))
    image.save(out, form.upper(), **({"quality": quality} if FORMATS[form].has_quality else {}))
    return out.getvalue()


Fit: TypeAlias = Literal["stretch", "fit", "pad", "crop"]
FITS = ("stretch", "fit", "pad", "crop")
Boxes: TypeAlias = NDArray[np.float64]  # xmin, ymin, xmax, ymax, as shares of the image


@dataclass(frozen=True)
class Move:
    """A part of an image that is resized, placed in another image, and possibly flipped. All in pixels."""

    of: tuple[int, int]  # height and width of the image
    part: tuple[int, int, int, int]  # top, left, height and width of the part; beyond its edge, the image repeats it
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
            picked.append(np.clip(np.floor(scaled).astype(np.int64), 0, mask.shape[side] - 1))
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
