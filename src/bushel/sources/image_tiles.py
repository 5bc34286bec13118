"""Tiles of very large images: a grid with overlap, read part by part where the format allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, take
from bushel.data.schema import Feature, Schema
from bushel.errors import FileProblem
from bushel.parallel import Helpers
from bushel.pixels.codecs import Encoded, decode_pixels, decode_wide, encode_pixels, is_wide
from bushel.pixels.headers import FORMATS, BadImage
from bushel.pixels.tiff import TiffReader, is_tiff
from bushel.sources.folders import ClassFolder, FolderSource
from bushel.sources.protocol import Block, Listing, Reads, Refused, check_values, recipe_table
from bushel.storage import AnyPath, local_copy

__all__ = ["TileSource", "tiles"]


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
                data = self.path.read_bytes()
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
        with path.open("rb") as file:
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
