"""Checking images, by their headers or by decoding them; turning them upright; columns of images in tables."""

from __future__ import annotations

import io
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np

from bushel import _native
from bushel.data.columns import BytesColumn, Column, Ragged, take
from bushel.data.schema import Feature
from bushel.errors import FileProblem, SchemaMismatch
from bushel.pixels.codecs import check_png, decode_pixels, decode_wide, encode_wide
from bushel.pixels.headers import BadImage, Header, Headers, Undecoded, parse_header, read_headers
from bushel.sources.protocol import Block, Refused
from bushel.storage import NAMED_OUT, as_path, read_below
from bushel.storage.downloads import Downloads, NotDownloaded, is_url

__all__ = ["Allow", "CheckedImages", "HowVerified", "ImageCheck", "ImageColumn", "KeepBytes", "Verify"]


Verify: TypeAlias = Literal["decode", "headers", "none"]
# The options that all sources of images have.
HowVerified: TypeAlias = Annotated[Verify, "How to check images: decode them, read their headers, or not at all"]
KeepBytes: TypeAlias = Annotated[bool, "Keep the original bytes; ignore EXIF rotation"]
Allow: TypeAlias = Annotated[str | Sequence[str], "Unusual images to accept: cmyk, 16-bit, animated"]

UNUSUAL = ("cmyk", "16-bit", "animated")
MAX_PIXELS = 100_000_000
_MORE = ("height", "width", "channels")


@dataclass(frozen=True)
class CheckedImages:
    """The usable images: their rows, their columns, why the others cannot be used, and what was changed."""

    rows: list[int]
    columns: dict[str, Column]
    bad: dict[int, str]
    counted: dict[str, int]


def allowed(names: str | Sequence[str]) -> tuple[str, ...]:
    """The names in `allow`: a list, or text such as `cmyk,16-bit` from a command line."""
    return tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else tuple(names)


@dataclass(frozen=True)
class ImageCheck:
    """How images are checked.

    `allow` lets through what most readers get wrong: `cmyk`, `16-bit`, `animated`.
    """

    verify: Verify = "decode"
    keep_bytes: bool = False
    allow: tuple[str, ...] = ()
    max_pixels: int = MAX_PIXELS

    def __post_init__(self) -> None:
        if self.verify not in ("decode", "headers", "none"):
            raise ValueError(f"verify must be 'decode', 'headers' or 'none'; got {self.verify!r}")
        for name in self.allow:
            if name not in UNUSUAL:
                raise ValueError(f"allow must be among {', '.join(UNUSUAL)}; got {name!r}")

    def features(self, name: str) -> dict[str, Feature]:
        """The features of a column of images."""
        found = {name: Feature(dtype="bytes", encoding="image")}
        if self.verify == "none":
            return found
        return found | {f"{name}/{what}": Feature(dtype="int64") for what in _MORE}

    def check(self, data: bytes) -> tuple[bytes, Header]:
        """One image, upright, with its header. Raises `BadImage`."""
        header = parse_header(data)
        self._refuse_unusual(header)
        if header.orientation > 1 and not self.keep_bytes:
            return _turn_upright(data, header)
        if self.verify == "decode":
            _decode(data, header)
        return data, header

    def _refuse_unusual(self, header: Header) -> None:
        pixels = header.width * header.height
        if pixels > self.max_pixels:
            size = f"{header.width}x{header.height}"
            raise BadImage(f"{size} pixels: more than {self.max_pixels:,} are refused as a decompression bomb")
        if not pixels:
            raise BadImage(f"it says that it has {header.width}x{header.height} pixels")
        if header.is_cmyk and "cmyk" not in self.allow:
            form = header.format.upper()
            raise BadImage(f"the {form} is in CMYK, whose colours most readers get wrong: convert it to RGB")
        if header.bits > 16 and "16-bit" not in self.allow:
            raise BadImage(f"it has {header.bits} bits per channel: scale it to 8 or 16 bits")
        if header.bits > 8 and "16-bit" not in self.allow:
            raise BadImage(f"it has {header.bits} bits per channel, and most readers keep 8: allow 16-bit to store it")
        if header.is_animated and "animated" not in self.allow:
            raise BadImage("it is animated, and most readers fail or take one frame: allow animated to keep it")

    def check_all(self, images: BytesColumn, name: str, *, decodes: bool = True) -> CheckedImages:
        """Many images as columns `name`, `name/height`, `name/width`, `name/channels`.

        The core checks all of them at once; unusual and damaged ones are then checked one by one. Without `decodes`,
        the core reads headers alone.
        """
        rows = list(range(len(images)))
        if self.verify == "none":
            return CheckedImages(rows, {name: images}, {}, {})
        headers = read_headers(images)
        changed: dict[int, bytes] = {}
        bad: dict[int, str] = {}
        for row in self._left(images, headers, decodes=decodes):
            given = images[row]
            try:
                data, header = self.check(given)
            except BadImage as error:
                bad[row] = str(error)
                continue
            if data is not given:
                changed[row] = data
            headers.height[row], headers.width[row], headers.channels[row] = header[2], header[1], header[3]
        if changed or bad:
            rows = [row for row in rows if row not in bad]
            images = BytesColumn.of([changed.get(row) or images[row] for row in rows])
        columns: dict[str, Column] = {name: images if decodes else Undecoded(images.offsets, images.data)}
        columns |= {f"{name}/{what}": np.ascontiguousarray(getattr(headers, what)[rows]) for what in _MORE}
        return CheckedImages(rows, columns, bad, {"images turned upright": len(changed)} if changed else {})

    def _left(self, images: BytesColumn, headers: Headers, *, decodes: bool) -> list[int]:
        """Rows that the core cannot vouch for."""
        is_plain = headers.is_known & (headers.orientation == 1) & (headers.bits <= 8) & (headers.is_animated == 0)
        is_plain &= headers.height * headers.width <= self.max_pixels
        if self.verify == "decode" and decodes:
            refused = _native.verify_images(images.offsets, images.data, np.flatnonzero(is_plain), self.max_pixels)
            is_plain[[row for row, _, _ in refused]] = False
        return np.flatnonzero(~is_plain).tolist()


def _decode(data: bytes, header: Header) -> None:
    """Decode every coefficient of the image, at the smallest scale."""
    one = np.array([0, len(data)])
    pixels = max(1, header.width * header.height)
    if not _native.verify_images(one, data, one[:1], pixels):
        return
    if header.format == "jpeg" and not header.is_cmyk and header.bits == 8:
        try:
            decode_pixels(data, upright=False, at_least=(1, 1), most_pixels=pixels)
        except (ValueError, OSError, SyntaxError) as error:
            raise BadImage(f"the JPEG cannot be decoded: {_lower(error)}") from None
        return
    _open(data, header).close()


def _lower(error: BaseException) -> str:
    text = str(error).removeprefix("b'").rstrip("'")
    return text[:1].lower() + text[1:]


def _open(data: bytes, header: Header) -> Any:
    """Decode the whole image with Pillow."""
    from PIL import Image

    try:
        check_png(data)
    except ValueError as error:
        raise BadImage(str(error)) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pixels were counted before
            limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
            try:
                image = Image.open(io.BytesIO(data), formats=[header.format.upper()])
                image.load()
            finally:
                Image.MAX_IMAGE_PIXELS = limit
    except Exception as error:
        raise BadImage(f"the {header.format.upper()} cannot be decoded: {_lower(error)}") from None
    return image


def _turn_upright(data: bytes, header: Header) -> tuple[bytes, Header]:
    """The image rotated as its EXIF data say, encoded again with the same tables, without the EXIF flag."""
    if header.bits == 16:
        return _turn_wide(data, header)
    from PIL import ImageOps, JpegImagePlugin

    image = _open(data, header)
    options: dict[str, Any] = {}
    if header.format == "jpeg":
        options = {"qtables": image.quantization}
        if image.mode != "L":
            options["subsampling"] = JpegImagePlugin.get_sampling(image)
    elif header.format == "webp":
        options = {"quality": 95, "lossless": b"VP8L" in data[:64]}
    upright = ImageOps.exif_transpose(image)
    out = io.BytesIO()
    upright.save(out, header.format.upper(), icc_profile=image.info.get("icc_profile"), **options)
    return out.getvalue(), header._replace(width=upright.width, height=upright.height, orientation=1)


def _turn_wide(data: bytes, header: Header) -> tuple[bytes, Header]:
    """The same for 16 bits per channel: a PNG, which keeps them."""
    try:
        pixels = decode_wide(data)
    except (ValueError, OSError, SyntaxError) as error:
        raise BadImage(f"the {header.format.upper()} cannot be decoded: {_lower(error)}") from None
    height, width, channels = pixels.shape
    return encode_wide(pixels), Header("png", width, height, channels, 16)


_ROWS = 256  # number of rows whose images are in memory at a time


@dataclass(frozen=True)
class ImageColumn:
    """A column of paths below `root`, of encoded images, or of both, as Hugging Face has them in a struct."""

    name: str
    root: str
    check: ImageCheck
    downloads: Downloads = field(default_factory=Downloads)
    is_inside: bool = False  # paths that leave the root are refused

    def made_of(self, names: Mapping[str, Any]) -> list[str]:
        """The columns of the table that the images come from."""
        return [name for name in (self.name, f"{self.name}/bytes", f"{self.name}/path") if name in names]

    def replace_features(self, features: dict[str, Feature]) -> dict[str, Feature]:
        """The features of the table, with those of the images in place of the columns they come from."""
        out: dict[str, Feature] = {}
        for name, feature in features.items():
            if name in self.made_of(features):
                out |= self.check.features(self.name)
            else:
                out[name] = feature
        return out

    def load(self, block: Block, is_path: bool) -> Iterator[Block]:
        """The same rows with their images read and checked, a few at a time."""
        for start in range(0, max(len(block.rows), 1), _ROWS):
            rows = np.arange(start, min(start + _ROWS, len(block.rows)))
            columns = {name: take(column, rows) for name, column in block.columns.items()}
            refused = block.refused if start == 0 else []
            yield self._load(Block(block.rows[rows], columns, refused), is_path)

    def _load(self, block: Block, is_path: bool) -> Block:
        made_of = self.made_of(block.columns)
        payload: list[bytes] = []
        there: list[int] = []
        refused: dict[int, tuple[str, str]] = {}
        values = [[(name, _value(block.columns[name], row)) for name in made_of] for row in range(len(block.rows))]
        fetched = self._fetched(values) if is_path else {}
        outside: Counter[str] = Counter()
        for row, own in enumerate(values):
            try:
                data = fetched[row] if row in fetched else self._bytes(own, is_path, outside)
            except FileProblem as error:
                refused[row] = ("read", error.message)
                continue
            except OSError as error:
                refused[row] = ("read", f"{error.filename}: {(error.strerror or str(error)).lower()}")
                continue
            if isinstance(data, NotDownloaded):
                refused[row] = ("read", f"{_url(own)}: {data}")
                continue
            if data is None:
                refused[row] = ("read", f"{self.name}: there is no image")
                continue
            payload.append(data)
            there.append(row)
        checked = self.check.check_all(BytesColumn.of(payload), self.name)
        refused |= {there[row]: ("decode", f"{self.name}: {reason}") for row, reason in checked.bad.items()}
        kept = np.array([there[row] for row in checked.rows], np.int64)
        columns: dict[str, Column] = {}
        for name, column in block.columns.items():
            columns |= checked.columns if name in made_of else {name: take(column, kept)}
        left = [Refused(int(block.rows[row]), *why) for row, why in refused.items()]
        return Block(block.rows[kept], columns, sorted([*block.refused, *left]), {**checked.counted, **outside})

    def _fetched(self, values: list[list[tuple[str, bytes | None]]]) -> dict[int, bytes | NotDownloaded]:
        """What is at the addresses of the web, by row."""
        urls = {row: url for row, own in enumerate(values) if (url := _url(own)) is not None}
        return dict(zip(urls, self.downloads.fetch_all(list(urls.values())), strict=True))

    def _bytes(self, values: list[tuple[str, bytes | None]], is_path: bool, outside: Counter[str]) -> bytes | None:
        for name, value in values:
            if value is None:
                continue
            if name.endswith("/path") or (name == self.name and is_path):
                root, path = as_path(self.root), value.decode(errors="surrogateescape")
                data, is_outside = read_below(root, path, is_inside=self.is_inside)
                outside.update([NAMED_OUT] * is_outside)
                return data
            return value
        return None


def _url(values: list[tuple[str, bytes | None]]) -> str | None:
    """The address that a row has instead of an image."""
    first = next((value for _, value in values if value is not None), b"")
    text = first[:4096].decode(errors="replace").strip() if first[:4].lower() == b"http" else ""
    return text if is_url(text) else None


def _value(column: Column, row: int) -> bytes | None:
    if isinstance(column, Ragged):
        if column.present is not None and not column.present[row]:
            return None
        row = int(column.row_splits[row])
        column = column.values
    if not isinstance(column, BytesColumn):
        raise SchemaMismatch("images must be bytes or paths, and the column holds numbers", at="image_column")
    return column[row]
