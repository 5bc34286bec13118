"""Regions of TIFF files: only the tiles or strips that are needed are found by their offsets and decoded.

Segments (tiles or strips) of 8 or 16 bits that are uncompressed or deflated are decoded here. For other compressions
(LZW, JPEG, PackBits, Zstandard, WebP), a small TIFF with only the segment is made, which Pillow decodes.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from bushel.pixels.codecs import decode_wide
from bushel.pixels.headers import BadImage

_TYPES = {1: "B", 2: "c", 3: "H", 4: "I", 5: "II", 6: "b", 7: "B", 8: "h", 9: "i", 16: "Q", 17: "q"}
_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC, _CHANNELS = 256, 257, 258, 259, 262, 277
_STRIPS, _STRIP_ROWS, _STRIP_SIZES, _PLANAR, _PREDICTOR = 273, 278, 279, 284, 317
_TILE_WIDTH, _TILE_HEIGHT, _TILES, _TILE_SIZES, _SAMPLE_FORMAT, _ORIENTATION = 322, 323, 324, 325, 339, 274
_PLAIN = (1, 8, 32946)  # uncompressed, deflate, and deflate by its number before the standard
_COPIED = (258, 259, 262, 277, 284, 317, 320, 338, 339, 347, 530, 532)  # what a segment needs to be decoded
_CACHE_BYTES = 64 << 20
_MOST_VALUES = 1 << 26  # of one tag


@dataclass(frozen=True)
class _Tag:
    kind: int
    count: int
    data: bytes


def is_tiff(head: bytes) -> bool:
    """Whether a file begins like a TIFF or a BigTIFF."""
    return head[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


class TiffReader:
    """The first image of a TIFF file, read region by region. Raises `BadImage`.

    16 bits per channel are cut to their upper 8, unless `wide`.
    """

    def __init__(self, path: Path, *, wide: bool = False) -> None:
        self.file: IO[bytes] = path.open("rb")
        try:
            self.tags = self._read_tags()
            self.width, self.height = self._number(_WIDTH), self._number(_HEIGHT)
            self.channels = self._number(_CHANNELS, 1)
            bits = self._numbers(_BITS, (1,))
            self.bits = bits[0] if len(set(bits)) == 1 else 0
            self.dtype = np.dtype(np.uint16 if wide and self.bits == 16 else np.uint8)
            self.is_tiled = _TILES in self.tags
            if self.is_tiled:
                self.segment = (self._number(_TILE_HEIGHT), self._number(_TILE_WIDTH))
            else:
                self.segment = (min(self._number(_STRIP_ROWS, self.height), self.height), self.width)
            self._check()
        except BaseException:
            self.file.close()
            raise
        self.cached: OrderedDict[int, NDArray[Any]] = OrderedDict()
        self.cached_bytes = 0
        self.most_bytes = _CACHE_BYTES

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def _read_tags(self) -> dict[int, _Tag]:
        head = self._bytes(0, 16)
        self.order = "<" if head[:2] == b"II" else ">"
        is_big = head[2:4] in (b"+\0", b"\0+")
        self.offset_type, size = ("Q", 20) if is_big else ("I", 12)
        (at,) = struct.unpack_from(f"{self.order}{self.offset_type}", head, 8 if is_big else 4)
        counter = "Q" if is_big else "H"
        (count,) = struct.unpack(f"{self.order}{counter}", self._bytes(at, struct.calcsize(counter)))
        if count > 4096:
            raise BadImage("the TIFF is damaged: its directory is not one")
        entries = self._bytes(at + struct.calcsize(counter), count * size)
        tags = {}
        for start in range(0, len(entries), size):
            tag, kind, values = struct.unpack_from(f"{self.order}HH{self.offset_type}", entries, start)
            if kind not in _TYPES or values > _MOST_VALUES:
                continue
            length = struct.calcsize(f"={_TYPES[kind]}") * values
            inline = entries[start + size - (8 if is_big else 4) : start + size]
            if length > len(inline):
                (where,) = struct.unpack(f"{self.order}{self.offset_type}", inline)
                inline = self._bytes(where, length)
            tags[tag] = _Tag(kind, values, inline[:length])
        return tags

    def _bytes(self, at: int, length: int) -> bytes:
        self.file.seek(at)
        data = self.file.read(length)
        if len(data) < length:
            raise BadImage("the TIFF ends early")
        return data

    def _numbers(self, tag: int, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        if tag not in self.tags:
            if default is None:
                raise BadImage(f"the TIFF is damaged: it has no tag {tag}")
            return default
        found = self.tags[tag]
        return struct.unpack(f"{self.order}{found.count}{_TYPES[found.kind]}", found.data)

    def _number(self, tag: int, default: int | None = None) -> int:
        return int(self._numbers(tag, None if default is None else (default,))[0])

    def _check(self) -> None:
        for side in (self.width, self.height, *self.segment):
            if side < 1:
                raise BadImage("the TIFF is damaged: it has no size")
        offsets, sizes = (_TILES, _TILE_SIZES) if self.is_tiled else (_STRIPS, _STRIP_SIZES)
        self.offsets, self.sizes = self._numbers(offsets), self._numbers(sizes)
        self.across = -(-self.width // self.segment[1])
        self.down = -(-self.height // self.segment[0])
        if len(self.offsets) < self.across * self.down or len(self.sizes) < len(self.offsets):
            raise BadImage("the TIFF is damaged: it has fewer parts than its size needs")

    @property
    def is_by_parts(self) -> bool:
        """Whether regions can be read on their own; other TIFFs must be decoded whole."""
        is_upright = self._number(_ORIENTATION, 1) == 1
        has_planes = self._number(_PLANAR, 1) == 2 and self.channels > 1
        return is_upright and not has_planes and self.bits in (8, 16) and self.channels in (1, 3, 4)

    def read(self, top: int, left: int, height: int, width: int) -> NDArray[Any]:
        """A region inside the image, as height x width x channels."""
        tall, wide = self.segment
        if not self.is_tiled:  # strips are as wide as the image: keep those of one row of regions
            self.most_bytes = max(_CACHE_BYTES, (height + 2 * tall) * self.width * 4 * self.dtype.itemsize)
        out: NDArray[Any] | None = None
        for row in range(top // tall, -(-(top + height) // tall)):
            for column in range(left // wide, -(-(left + width) // wide)):
                part = self._segment(row * self.across + column)
                if out is None:
                    out = np.zeros((height, width, part.shape[2]), self.dtype)
                y, x = row * tall, column * wide
                first, last = max(top, y), min(top + height, y + part.shape[0])
                begin, end = max(left, x), min(left + width, x + part.shape[1])
                out[first - top : last - top, begin - left : end - left] = part[
                    first - y : last - y, begin - x : end - x
                ]
        assert out is not None
        return out

    def _segment(self, number: int) -> NDArray[Any]:
        if number in self.cached:
            self.cached.move_to_end(number)
            return self.cached[number]
        pixels = self._decode(number)
        self.cached[number] = pixels
        self.cached_bytes += pixels.nbytes
        while self.cached_bytes > self.most_bytes and len(self.cached) > 1:
            self.cached_bytes -= self.cached.popitem(last=False)[1].nbytes
        return pixels

    def _decode(self, number: int) -> NDArray[Any]:
        height, width = self.segment
        if not self.is_tiled:
            height = min(height, self.height - number * height)
        data = self._bytes(self.offsets[number], self.sizes[number])
        photometric = self._number(_PHOTOMETRIC, 1)
        if (
            self._number(_COMPRESSION, 1) in _PLAIN
            and photometric in (0, 1, 2)
            and self._number(_SAMPLE_FORMAT, 1) == 1
        ):
            return self._decode_plain(data, height, width, inverted=photometric == 0)
        return self._decode_other(data, height, width)

    def _decode_plain(self, data: bytes, height: int, width: int, *, inverted: bool) -> NDArray[Any]:
        if self._number(_COMPRESSION, 1) != 1:
            try:
                data = zlib.decompressobj().decompress(data, height * width * self.channels * self.bits // 8)
            except zlib.error as error:
                raise BadImage(f"the TIFF is damaged: {error}") from None
        values = np.frombuffer(data, np.dtype(f"u{self.bits // 8}").newbyteorder(self.order))  # type: ignore[arg-type]
        if len(values) < height * width * self.channels:
            raise BadImage("the TIFF is damaged: a part of it ends early")
        pixels = values[: height * width * self.channels].reshape(height, width, self.channels)
        if self._number(_PREDICTOR, 1) == 2:
            pixels = np.cumsum(pixels, axis=1, dtype=pixels.dtype.newbyteorder("="))
        if self.bits == 16 and self.dtype == np.uint8:
            pixels = pixels >> 8
        pixels = pixels.astype(self.dtype)
        return ~pixels if inverted else pixels

    def _decode_other(self, data: bytes, height: int, width: int) -> NDArray[Any]:
        from PIL import Image

        file = self._small_file(data, height, width)
        try:
            if self.dtype == np.uint16:
                return decode_wide(file)
            with Image.open(io.BytesIO(file), formats=["TIFF"]) as image:
                if image.mode.startswith("I"):
                    wide: Any = np.clip(np.asarray(image), 0, 65535) >> 8
                    return wide.astype(np.uint8)[..., None]  # type: ignore[no-any-return]
                mode = "L" if image.mode in ("1", "L") else "RGBA" if image.mode in ("RGBA", "LA") else "RGB"
                pixels = np.asarray(image.convert(mode))
        except Exception as error:
            raise BadImage(f"a part of the TIFF cannot be decoded: {error}") from None
        return pixels.reshape(height, width, -1)

    def _small_file(self, data: bytes, height: int, width: int) -> bytes:
        """A TIFF of one strip: this segment."""
        tags = {tag: self.tags[tag] for tag in _COPIED if tag in self.tags}
        for tag, value in ((_WIDTH, width), (_HEIGHT, height), (_STRIP_ROWS, height), (_STRIP_SIZES, len(data))):
            tags[tag] = _Tag(4, 1, struct.pack(f"{self.order}I", value))
        tags[_STRIPS] = _Tag(4, 1, b"\0\0\0\0")
        behind = 8 + 2 + 12 * len(tags) + 4
        place, entries, more = behind, [], []
        for tag, found in sorted(tags.items()):
            inline = found.data.ljust(4, b"\0")
            if len(found.data) > 4:
                inline = struct.pack(f"{self.order}I", place)
                more.append(found.data + b"\0" * (len(found.data) % 2))
                place += len(more[-1])
            entries.append((tag, found, inline))
        packed = b"".join(
            struct.pack(f"{self.order}HHI", tag, found.kind, found.count)
            + (struct.pack(f"{self.order}I", place) if tag == _STRIPS else inline)
            for tag, found, inline in entries
        )
        head = (b"II*\0" if self.order == "<" else b"MM\0*") + struct.pack(f"{self.order}IH", 8, len(tags))
        return head + packed + b"\0\0\0\0" + b"".join(more) + data
