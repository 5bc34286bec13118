"""Image headers: format, size, channels, bits, rotation. No pixel is decoded."""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.columns import BytesColumn
from bushel.storage.file_kinds import IMAGES, kind_of_bytes, what_is


class BadImage(Exception):
    """Why an image cannot be used."""


class Header(NamedTuple):
    """What the header of an image says."""

    format: str  # jpeg, png, gif, webp, bmp, tiff
    width: int
    height: int
    channels: int  # as decoded: a palette has three, grey with alpha has four
    bits: int = 8  # per channel
    orientation: int = 1  # EXIF's number: 1 is upright
    is_animated: bool = False
    is_cmyk: bool = False


class NativeCodec(IntEnum):
    """Formats that the core decodes, as it numbers them."""

    OTHER, JPEG, PNG = range(3)


class Headers(NamedTuple):
    """What many images say of themselves, a column each, as far as the core knows them; 0 where it does not."""

    codec: NDArray[np.int64]
    height: NDArray[np.int64]  # turned upright
    width: NDArray[np.int64]
    channels: NDArray[np.int64]
    orientation: NDArray[np.int64]
    bits: NDArray[np.int64]
    is_animated: NDArray[np.int64]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Height and width of each."""
        return np.stack([self.height, self.width], axis=1)

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """Whether the core may decode it: it may still be damaged, or of a rare kind."""
        is_jpeg = (self.codec == NativeCodec.JPEG) & np.isin(self.channels, (1, 3))
        return np.asarray(is_jpeg | ((self.codec == NativeCodec.PNG) & (self.bits <= 8)))


class Undecoded(BytesColumn):
    """Encoded images of which only headers were read: whoever decodes them must not pass over one that cannot be."""


def read_headers(images: BytesColumn) -> Headers:
    """Read the headers of JPEGs and PNGs, many at once."""
    return Headers(*np.asarray(_native.image_headers(images.offsets, images.data)).T.copy())


def parse_header(data: bytes) -> Header:
    """Read the header of an image, whose format follows from its first bytes. Raises `BadImage`."""
    kind = kind_of_bytes(data)
    if kind is not None and kind.name in FORMATS:
        return FORMATS[kind.name].parse(data)
    if not data:
        raise BadImage("the file is empty: 0 bytes")
    raise BadImage(f"it is {what_is(data[:512]) or 'something unknown'}, not an image")


_CUT = "the image ends inside its header"


def _jpeg(data: bytes) -> Header:
    at, orientation, size = 2, 1, len(data)
    while at + 10 <= size:
        if data[at] != 0xFF:
            raise BadImage(f"the JPEG is damaged: no marker at byte {at}")
        marker = data[at + 1]
        if marker == 0xFF:  # fill
            at += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return _jpeg_frame(data, at, orientation)
        if marker in (0xD9, 0xDA):
            raise BadImage("the JPEG is damaged: it has no frame header")
        if marker == 0xE1 and data[at + 4 : at + 10] == b"Exif\0\0":
            orientation = _orientation(data[at + 10 : at + 2 + int.from_bytes(data[at + 2 : at + 4])])
        at += 2 + (data[at + 2] << 8 | data[at + 3])
    raise BadImage(_CUT)


def _jpeg_frame(data: bytes, at: int, orientation: int) -> Header:
    bits, height, width, channels = struct.unpack_from(">BHHB", data, at + 4)
    if not height or not width:
        raise BadImage(f"the JPEG says that it has {width}x{height} pixels")
    if data.rfind(b"\xff\xd9", at) < 0:
        raise BadImage("the JPEG ends early: it has no end marker")
    return Header("jpeg", width, height, 3 if channels == 4 else channels, bits, orientation, is_cmyk=channels == 4)


def _orientation(exif: bytes) -> int:
    """The orientation in EXIF data; 1, upright, if there is no valid one."""
    order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    if order is None or len(exif) < 8:
        return 1
    try:
        (at,) = struct.unpack_from(f"{order}I", exif, 4)
        (count,) = struct.unpack_from(f"{order}H", exif, at)
        for entry in range(at + 2, at + 2 + 12 * count, 12):
            tag, kind = struct.unpack_from(f"{order}HH", exif, entry)
            if tag == 0x0112 and kind == 3:
                (value,) = struct.unpack_from(f"{order}H", exif, entry + 8)
                return value if 1 <= value <= 8 else 1
    except struct.error:
        pass
    return 1


_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 4, 6: 4}


def _png(data: bytes) -> Header:
    if len(data) < 33 or data[12:16] != b"IHDR":
        raise BadImage(_CUT)
    width, height, bits, colour = struct.unpack_from(">IIBB", data, 16)
    if not width or not height or colour not in _PNG_CHANNELS:
        raise BadImage(f"the PNG says that it has {width}x{height} pixels of colour type {colour}")
    if data.rfind(b"IEND") < 0:
        raise BadImage("the PNG ends early: it has no end chunk")
    is_animated, orientation, channels, at = False, 1, _PNG_CHANNELS[colour], 33
    while (kind := data[at + 4 : at + 8]) not in (b"IDAT", b""):
        (length,) = struct.unpack_from(">I", data, at)
        if kind == b"acTL":
            is_animated = length >= 4 and data[at + 8 : at + 12] > b"\0\0\0\1"
        elif kind == b"eXIf":
            orientation = _orientation(data[at + 8 : at + 8 + length])
        elif kind == b"tRNS" and not (colour == 0 and bits == 16):  # which nobody decodes with alpha
            channels = 4
        at += 12 + length
    return Header("png", width, height, channels, 16 if bits == 16 else 8, orientation, is_animated)


def _gif(data: bytes) -> Header:
    if len(data) < 13:
        raise BadImage(_CUT)
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at, frames = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0), 0
    is_transparent = False
    while at < len(data) and data[at] != 0x3B and frames < 2:
        if data[at] == 0x2C and at + 10 < len(data):
            frames += 1
            left, top, own_width, own_height, local = struct.unpack_from("<HHHHB", data, at + 1)
            if frames == 1:  # a picture may be larger than the screen that the file states
                width, height = max(width, left + own_width), max(height, top + own_height)
            at = _after_blocks(data, at + 11 + (3 << (local & 7) + 1 if local & 0x80 else 0))
        elif data[at] == 0x21:
            if not frames and data[at + 1 : at + 3] == b"\xf9\x04":
                is_transparent = bool(data[at + 3] & 1)
            at = _after_blocks(data, at + 2)
        else:
            raise BadImage(f"the GIF is damaged at byte {at}")
    if not frames:
        raise BadImage("the GIF ends early: it has no picture")
    return Header("gif", width, height, 4 if is_transparent else 3, is_animated=frames > 1)


def _after_blocks(data: bytes, at: int) -> int:
    while at < len(data) and data[at]:
        at += data[at] + 1
    return at + 1


def _bmp(data: bytes) -> Header:
    if len(data) < 30:
        raise BadImage(_CUT)
    (size,) = struct.unpack_from("<I", data, 14)
    if size == 12:  # of OS/2
        width, height, _, bits = struct.unpack_from("<HHHH", data, 18)
        return Header("bmp", width, height, _bmp_channels(data, 26, bits, 3, 0))
    if len(data) < 54:
        raise BadImage(_CUT)
    width, height, _, bits, compression = struct.unpack_from("<iiHHI", data, 18)
    (colours,) = struct.unpack_from("<I", data, 46)
    if bits == 32 and compression == 3 and size >= 56 and len(data) >= 70:  # masks of red, green, blue and alpha
        return Header("bmp", abs(width), abs(height), 4 if any(data[66:70]) else 3)
    return Header("bmp", abs(width), abs(height), _bmp_channels(data, 14 + size, bits, 4, colours))


def _bmp_channels(data: bytes, at: int, bits: int, step: int, colours: int) -> int:
    """1 if the palette holds the levels of grey in their order, otherwise 3."""
    if bits > 8 or bits < 1:
        return 3
    count = colours or 1 << bits
    levels = (0, 255) if count == 2 else range(count)
    palette = data[at : at + count * step]
    is_grey = len(palette) == count * step and all(
        palette[step * row : step * row + 3] == bytes([level % 256] * 3) for row, level in enumerate(levels)
    )
    return 1 if is_grey else 3


def _webp(data: bytes) -> Header:
    if len(data) < 30:
        raise BadImage(_CUT)
    if len(data) < 8 + int.from_bytes(data[4:8], "little"):
        raise BadImage("the WebP ends early")
    kind = data[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return Header("webp", width & 0x3FFF, height & 0x3FFF, 3)
    if kind == b"VP8L":
        packed = int.from_bytes(data[21:25], "little")
        return Header("webp", (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1, 4 if packed >> 28 & 1 else 3)
    if kind != b"VP8X":
        raise BadImage("the WebP is damaged: it has no picture")
    flags = data[20]
    width = int.from_bytes(data[24:27], "little") + 1
    height = int.from_bytes(data[27:30], "little") + 1
    orientation = 1
    if flags & 0x08 and (at := data.rfind(b"EXIF")) > 0:
        exif = data[at + 8 : at + 8 + int.from_bytes(data[at + 4 : at + 8], "little")]
        orientation = _orientation(exif.removeprefix(b"Exif\0\0"))
    channels = 4 if flags & 0x10 else 3
    return Header("webp", width, height, channels, 8, orientation, is_animated=bool(flags & 0x02))


_TIFF_WIDTH, _TIFF_HEIGHT, _TIFF_BITS, _TIFF_ORIENTATION, _TIFF_CHANNELS = 256, 257, 258, 274, 277
_TIFF_KIND, _TIFF_COLOURS, _TIFF_EXTRA = 254, 262, 338
_MOST_PAGES = 64


class _TiffForm(NamedTuple):
    """How numbers are written in a TIFF: small ones, or in a BigTIFF."""

    order: str
    offset: str = "I"
    length: str = "H"

    def read(self, kind: str, data: bytes, at: int) -> int:
        (value,) = struct.unpack_from(f"{self.order}{kind}", data, at)
        return int(value)

    def page(self, data: bytes, at: int) -> tuple[dict[int, int], int]:
        """The first value of each tag, and where the next page is."""
        wide = struct.calcsize(self.offset)
        entries = at + struct.calcsize(self.length)
        tags_there = self.read(self.length, data, at)
        if tags_there > len(data):
            raise struct.error
        tags: dict[int, int] = {}
        for entry in range(entries, entries + (4 + 2 * wide) * tags_there, 4 + 2 * wide):
            tag, kind = self.read("H", data, entry), self.read("H", data, entry + 2)
            size = {1: "B", 3: "H", 4: "I", 16: "Q"}.get(kind)
            if size is not None:
                where = entry + 4 + wide
                if self.read(self.offset, data, entry + 4) * struct.calcsize(size) > wide:
                    where = self.read(self.offset, data, where)
                tags[tag] = self.read(size, data, where)
        return tags, self.read(self.offset, data, entries + (4 + 2 * wide) * tags_there)


def _tiff(data: bytes) -> Header:
    order = "<" if data[:2] == b"II" else ">"
    is_big = data[2:4] in (b"+\0", b"\0+")
    form = _TiffForm(order, "Q", "Q") if is_big else _TiffForm(order)
    try:
        tags, following = form.page(data, form.read(form.offset, data, 8 if is_big else 4))
    except struct.error:
        raise BadImage(_CUT) from None
    if _TIFF_WIDTH not in tags or _TIFF_HEIGHT not in tags:
        raise BadImage("the TIFF is damaged: it has no size")
    orientation = tags.get(_TIFF_ORIENTATION, 1)
    is_cmyk = tags.get(_TIFF_COLOURS) == 5
    return Header(
        "tiff",
        tags[_TIFF_WIDTH],
        tags[_TIFF_HEIGHT],
        3 if is_cmyk else _tiff_channels(tags),
        max(8, tags.get(_TIFF_BITS, 8)),
        orientation if 1 <= orientation <= 8 else 1,
        is_animated=_has_pages(form, data, following),
        is_cmyk=is_cmyk,
    )


def _tiff_channels(tags: dict[int, int]) -> int:
    stored = tags.get(_TIFF_CHANNELS, 1)
    if tags.get(_TIFF_COLOURS) == 3:
        return 3  # a palette
    return 4 if stored == 2 else stored


def _has_pages(form: _TiffForm, data: bytes, at: int) -> bool:
    """Whether another page follows that is not a smaller copy of the first, or its mask."""
    for _ in range(_MOST_PAGES):
        if not at:
            return False
        try:
            tags, at = form.page(data, at)
        except struct.error:
            return True
        if not tags.get(_TIFF_KIND, 0) & 0b101:
            return True
    return True


class ImageFormat(NamedTuple):
    """What bushel does with an image format; `file_kinds` has its suffixes and first bytes."""

    parse: Callable[[bytes], Header]
    is_written: bool = False  # images can be stored in it
    has_quality: bool = False  # compression is lossy, with a quality of 1 to 100


FORMATS = {
    "jpeg": ImageFormat(_jpeg, is_written=True, has_quality=True),
    "png": ImageFormat(_png, is_written=True),
    "webp": ImageFormat(_webp, is_written=True, has_quality=True),
    "gif": ImageFormat(_gif),
    "bmp": ImageFormat(_bmp),
    "tiff": ImageFormat(_tiff),
}
assert FORMATS.keys() == IMAGES.keys(), "each image format of file_kinds needs a parser here"
