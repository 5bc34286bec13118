"""Tiles of very large images: a grid with overlap, read part by part where the format allows.

Of a TIFF file, only the segments (its own tiles or strips) that are needed are found by their offsets and decoded:
those of 8 or 16 bits that are uncompressed or deflated are decoded here. For other compressions (LZW, JPEG, PackBits,
Zstandard, WebP), a small TIFF with only the segment is made, which Pillow decodes.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, ClassVar, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, take
from bushel.data.schema import Feature, Schema
from bushel.errors import FileProblem
from bushel.parallel import Helpers
from bushel.pixels.codecs import Encoded, decode_pixels, decode_wide, encode_pixels, is_wide
from bushel.pixels.headers import FORMATS, BadImage
from bushel.sources.folders import ClassFolder, FolderSource
from bushel.sources.protocol import Block, Listing, Reads, Refused, check_values, recipe_table
from bushel.storage import AnyPath, local_copy, open_named, read_named

__all__ = ["TiffReader", "TileSource", "is_tiff", "tiles"]


Edge: TypeAlias = Literal["shift", "pad", "drop"]
MAX_PIXELS = 500_000_000  # pixels of an image that has to be decoded whole
_BLOCK_BYTES = 8 << 20
_BLOCK_TILES = 64
_BYTES = np.dtype(np.uint8)


def tiles(
    path: AnyPath,
    *,
    height: Annotated[int, "Height of a tile in pixels"],
    width: Annotated[int | None, "Width of a tile in pixels (default: its height)"] = None,
    overlap: Annotated[int, "Pixels by which tiles overlap"] = 0,
    edge: Annotated[Edge, "What to do where the grid does not end with the image"] = "shift",
    fill: Annotated[int, "Value of padded pixels"] = 0,
    form: Annotated[Encoded, "Image format of tiles"] = "png",
    dtype: Annotated[Literal["uint8", "uint16"], "Bits per channel of tiles"] = "uint8",
    quality: Annotated[int, "Quality of JPEG and WebP, from 1 to 100"] = 95,
    class_folder: Annotated[
        ClassFolder, "Which folder of a path names the class (none: there are no classes)"
    ] = "first",
    max_pixels: Annotated[int, "Refuse larger images that have to be decoded whole"] = MAX_PIXELS,
    helpers: Helpers = None,
) -> TileSource:
    """Take samples from the images below a folder, or from one image: tiles of height x width.

    Each reaches `overlap` pixels over the next. Where the grid does not end with the image, the last tiles are moved
    back into it (`edge="shift"`), padded with `fill` ("pad"), or left out ("drop"); an image that is smaller than a
    tile is padded. Of TIFFs only the parts that a tile needs are decoded; other formats are decoded whole, one image
    at a time, up to `max_pixels`. 16 bits per channel are cut to 8, and such tiles counted, unless
    `dtype="uint16"`: tiles are then PNGs of 16 bits per channel, in which 8 bits are multiplied by 257.
    """
    given = locals()
    check_values(tiles, given)
    grid = _Grid(height, width or height, overlap, edge, fill)
    if not 1 <= quality <= 100:
        raise ValueError(f"quality must be from 1 to 100, got {quality}")
    if dtype == "uint16" and form != "png":
        raise ValueError(f"form must be png for dtype='uint16', got {form!r}: it has 8 bits per channel")
    resolved = {"width": grid.width, "quality": quality if FORMATS[form].has_quality else None}
    recipe = recipe_table(tiles, str(path), given | resolved, always=("width", "form", "quality"))
    source = TileSource(
        path=str(path),
        class_folder=class_folder,
        recipe=recipe,
        grid=grid,
        encoding=(form, quality),
        max_pixels=max_pixels,
        dtype=np.dtype(dtype),
    )
    source.look(helpers)
    if not len(source.files):
        raise FileProblem(path, "there are no images in this folder")
    return source


@dataclass(frozen=True)
class _Grid:
    """The grid of tiles."""

    height: int
    width: int
    overlap: int
    edge: Edge
    fill: int

    def __post_init__(self) -> None:
        for name in ("height", "width"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 <= self.overlap < min(self.height, self.width):
            raise ValueError(f"overlap must be from 0 to less than a tile's side, got {self.overlap}")

    def places(self, height: int, width: int) -> NDArray[np.int64]:
        """Top and left of each tile, row by row."""
        tops, lefts = self._along(height, self.height), self._along(width, self.width)
        return np.stack(np.meshgrid(tops, lefts, indexing="ij"), axis=-1).reshape(-1, 2)

    def _along(self, size: int, tile: int) -> NDArray[np.int64]:
        if size <= tile:
            return np.zeros(int(size == tile or self.edge != "drop"), np.int64)
        step = tile - self.overlap
        whole = np.arange(0, size - tile + 1, step)
        if whole[-1] + tile < size and self.edge != "drop":
            whole = np.append(whole, size - tile if self.edge == "shift" else whole[-1] + step)
        return whole.astype(np.int64)


class _Pixels(Protocol):
    height: int
    width: int

    @property
    def bits(self) -> int: ...

    def read(self, top: int, left: int, height: int, width: int) -> NDArray[Any]: ...

    def close(self) -> None: ...


class _WholeImage:
    """An image that is decoded whole when its first tile is requested."""

    def __init__(self, path: Path, max_pixels: int, dtype: np.dtype[Any]) -> None:
        self.path = path
        self.dtype = dtype
        self.bits = 8
        self.height, self.width = _size(path)
        if self.height * self.width > max_pixels:
            size = f"{self.width}x{self.height}"
            raise BadImage(f"{size} pixels are more than the {max_pixels:,} that may be decoded at once")
        self.pixels: NDArray[Any] | None = None

    def read(self, top: int, left: int, height: int, width: int) -> NDArray[Any]:
        """A region."""
        if self.pixels is None:
            from PIL import Image

            limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None  # pixels were counted before
            try:
                data = read_named(self.path)
                self.bits = 16 if is_wide(data) else 8
                is_wide_wanted = self.dtype == np.uint16
                self.pixels = decode_wide(data) if is_wide_wanted else decode_pixels(data, most_pixels=2**32)
            except (ValueError, OSError, SyntaxError) as error:
                raise BadImage(f"the image cannot be decoded: {error}") from None
            finally:
                Image.MAX_IMAGE_PIXELS = limit
        return self.pixels[top : top + height, left : left + width]

    def close(self) -> None:
        """Free the pixels."""
        self.pixels = None


def _size(path: Path) -> tuple[int, int]:
    """Height and width, upright, from the header."""
    from PIL import Image

    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
        with Image.open(path) as image:
            is_turned = image.getexif().get(0x0112, 1) >= 5
            return (image.width, image.height) if is_turned else (image.height, image.width)
    except Exception as error:
        what = "it is not an image" if "cannot identify" in str(error) else f"the image cannot be read: {error}"
        raise BadImage(what) from None
    finally:
        Image.MAX_IMAGE_PIXELS = limit


def open_pixels(path: Path, max_pixels: int, dtype: np.dtype[Any] = _BYTES) -> _Pixels:
    """An image whose regions can be read: part by part if it is a TIFF that allows it."""
    path = local_copy(path)
    try:
        with open_named(path) as file:
            head = file.read(4)
    except OSError as error:
        raise BadImage((error.strerror or str(error)).lower()) from None
    if is_tiff(head):
        reader = TiffReader(path, wide=dtype == np.uint16)
        if reader.is_by_parts:
            return reader
        reader.close()
    return _WholeImage(path, max_pixels, dtype)


@dataclass(eq=False, kw_only=True)
class TileSource(FolderSource):
    """Tiles of images; reads in sequence, an image per partition."""

    reads: ClassVar[Reads] = "sequence"
    takes = "images"
    group = "image"
    grid: _Grid
    encoding: tuple[Encoded, int]
    max_pixels: int
    dtype: np.dtype[Any]

    def partitions(self) -> int:
        """One per image."""
        return len(self.files)

    def schema(self) -> Schema:
        """The tile, its size and position in the image, the label and the key."""
        numbers = ("height", "width", "channels", "top", "left")
        features = {"image": Feature(dtype="bytes", encoding="image")}
        features |= {f"image/{name}": Feature(dtype="int64") for name in numbers}
        if "label" in self.listed:
            features["label"] = Feature(dtype="str")
        features["key"] = Feature(dtype="str")
        return Schema(features=features)

    def _places(self, partition: int) -> NDArray[np.int64] | str:
        """The positions of an image's tiles, or why there are none."""
        try:
            pixels = open_pixels(self.file_at(partition), self.max_pixels)
        except BadImage as error:
            return str(error)
        pixels.close()
        places = self.grid.places(pixels.height, pixels.width)
        return places if len(places) else f"no tile fits into its {pixels.width}x{pixels.height} pixels"

    def list(self, partition: int, columns: Sequence[str]) -> Listing:
        """Keys are the path and the position of a tile; an image that cannot be used is one row."""
        found = self._places(partition)
        keys = BytesColumn.of([self.key_at(partition)]) if isinstance(found, str) else self._keys(partition, found)
        return self.list_cut(partition, keys, columns, {})

    def _keys(self, partition: int, places: NDArray[np.int64]) -> BytesColumn:
        name = self.key_at(partition)
        return BytesColumn.of([name + b"@%d,%d" % (top, left) for top, left in places.tolist()])

    def read(self, partition: int, rows: NDArray[np.int64] | None) -> Iterator[Block]:
        """All tiles of an image, in order."""
        if rows is not None:
            raise ValueError("rows must be None: tiles are read in sequence")
        found = self._places(partition)
        if isinstance(found, str):
            yield self._block(partition, np.empty((0, 2), np.int64), [], [], [Refused(0, "decode", found)], {})
            return
        pixels = open_pixels(self.file_at(partition), self.max_pixels, self.dtype)
        try:
            made: list[tuple[bytes, int]] = []
            kept: list[int] = []
            refused: list[Refused] = []
            for row, (top, left) in enumerate(found.tolist()):
                try:
                    made.append(self._tile(pixels, top, left))
                    kept.append(row)
                except BadImage as error:
                    refused.append(Refused(row, "decode", str(error)))
                if len(made) == _BLOCK_TILES or sum(len(data) for data, _ in made) > _BLOCK_BYTES:
                    yield self._block(partition, found, kept, made, refused, self._counted(pixels, len(made)))
                    made, kept, refused = [], [], []
            yield self._block(partition, found, kept, made, refused, self._counted(pixels, len(made)))
        finally:
            pixels.close()

    def _counted(self, pixels: _Pixels, count: int) -> dict[str, int]:
        return {"tiles cut from 16 to 8 bits": count} if count and pixels.bits == 16 and self.dtype == _BYTES else {}

    def _tile(self, pixels: _Pixels, top: int, left: int) -> tuple[bytes, int]:
        height, width = min(self.grid.height, pixels.height - top), min(self.grid.width, pixels.width - left)
        part = pixels.read(top, left, height, width)
        if part.dtype != self.dtype:
            part = part.astype(self.dtype) * self.dtype.type(257)
        if part.shape[:2] != (self.grid.height, self.grid.width):
            canvas = np.full((self.grid.height, self.grid.width, part.shape[2]), self.grid.fill, self.dtype)
            canvas[: part.shape[0], : part.shape[1]] = part
            part = canvas
        data = encode_pixels(np.ascontiguousarray(part), *self.encoding)
        return data, min(part.shape[2], 3) if self.encoding[0] == "jpeg" else part.shape[2]

    def _block(
        self,
        partition: int,
        places: NDArray[np.int64],
        kept: Sequence[int],
        made: Sequence[Any],
        refused: Any,
        counted: dict[str, int],
    ) -> Block:
        rows = np.array(kept, np.int64)
        at = places[rows]
        columns: dict[str, Column] = {
            "image": BytesColumn.of([data for data, _ in made]),
            "image/height": np.full(len(rows), self.grid.height),
            "image/width": np.full(len(rows), self.grid.width),
            "image/channels": np.array([channels for _, channels in made], np.int64),
            "image/top": at[:, 0],
            "image/left": at[:, 1],
            "key": self._keys(partition, at),
        }
        if "label" in self.listed:
            columns["label"] = take(self.listed["label"], np.full(len(rows), partition))
        return Block(rows, columns, refused, counted)

    def locate(self, partition: int, row: int) -> str:
        """The image and the position of the tile."""
        places = self._places(partition)
        at = "" if isinstance(places, str) else f": tile at row {places[row, 0]}, column {places[row, 1]}"
        return f"{self.file_at(partition)}{at}"


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
        after = 8 + 2 + 12 * len(tags) + 4
        place, entries, more = after, [], []
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
