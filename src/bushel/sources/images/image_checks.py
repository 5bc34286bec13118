"""Whether images can really be used: looked at by their headers, or decoded; and turned upright."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from bushel import _native
from bushel.data.columns import BytesColumn, Column
from bushel.data.schema import Feature
from bushel.pixels.codecs import decode_wide, encode_wide
from bushel.pixels.headers import BadImage, Header, Headers, parse_header, read_headers

__all__ = ["CheckedImages", "ImageCheck", "Verify"]

Verify: TypeAlias = Literal["decode", "headers", "none"]

UNUSUAL = ("cmyk", "16-bit", "animated")
MAX_PIXELS = 100_000_000
_MORE = ("height", "width", "channels")


@dataclass(frozen=True)
class CheckedImages:
    """Images that can be used: which of those given, their columns, why the others cannot, and what was changed."""

    rows: list[int]
    columns: dict[str, Column]
    bad: dict[int, str]
    counted: dict[str, int]


def allowed(names: str | Sequence[str]) -> tuple[str, ...]:
    """What `allow` names: a list, or text such as `cmyk,16-bit`, which is how a command line has it."""
    return tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else tuple(names)


@dataclass(frozen=True)
class ImageCheck:
    """How images are looked at.

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
        """What a column of images makes."""
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
        if header.format == "jpeg" and header.channels == 4 and "cmyk" not in self.allow:
            raise BadImage("the JPEG is in CMYK, whose colours most readers get wrong: convert it to RGB")
        if header.bits > 16 and "16-bit" not in self.allow:
            raise BadImage(f"it has {header.bits} bits per channel: scale it to 8 or 16 bits")
        if header.bits > 8 and "16-bit" not in self.allow:
            raise BadImage(f"it has {header.bits} bits per channel, and most readers keep 8: allow 16-bit to store it")
        if header.is_animated and "animated" not in self.allow:
            raise BadImage("it is animated, and most readers fail or take one frame: allow animated to keep it")

    def check_all(self, images: BytesColumn, name: str) -> CheckedImages:
        """Many images as columns `name`, `name/height`, `name/width`, `name/channels`.

        The core looks at all of them at once; those that are unusual or damaged are then looked at one by one.
        """
        rows = list(range(len(images)))
        if self.verify == "none":
            return CheckedImages(rows, {name: images}, {}, {})
        headers = read_headers(images)
        changed: dict[int, bytes] = {}
        bad: dict[int, str] = {}
        for row in self._left(images, headers):
            given = images[row]
            try:
                data, header = self.check(given)
            except BadImage as error:
                bad[row] = str(error)
                continue
            if data is not given:
                changed[row] = data
            headers.height[row], headers.width[row], headers.channels[row] = header[2], header[1], header[3]
        columns: dict[str, Column] = {name: images}
        if changed or bad:
            rows = [row for row in rows if row not in bad]
            columns[name] = BytesColumn.of([changed.get(row) or images[row] for row in rows])
        columns |= {f"{name}/{what}": np.ascontiguousarray(getattr(headers, what)[rows]) for what in _MORE}
        return CheckedImages(rows, columns, bad, {"images turned upright": len(changed)} if changed else {})

    def _left(self, images: BytesColumn, headers: Headers) -> list[int]:
        """Rows of which the core cannot say that all is well."""
        is_plain = headers.is_known & (headers.orientation == 1) & (headers.bits <= 8) & (headers.is_animated == 0)
        is_plain &= headers.height * headers.width <= self.max_pixels
        if self.verify == "decode":
            refused = _native.verify_images(images.offsets, images.data, np.flatnonzero(is_plain), self.max_pixels)
            is_plain[[row for row, _, _ in refused]] = False
        return np.flatnonzero(~is_plain).tolist()


def _decode(data: bytes, header: Header) -> None:
    """Read every coefficient of the image, at the smallest scale there is."""
    one = np.array([0, len(data)])
    if not _native.verify_images(one, data, one[:1], max(1, header.width * header.height)):
        return
    if header.format == "jpeg" and header.channels in (1, 3) and header.bits == 8:
        import simplejpeg

        try:
            simplejpeg.decode_jpeg(data, "GRAY", True, True, 1, 1)
        except ValueError as error:
            if "subsampling" not in str(error):  # of a rare kind that Pillow decodes
                raise BadImage(f"the JPEG cannot be decoded: {_lower(error)}") from None
        else:
            return
    _open(data, header).close()


def _lower(error: BaseException) -> str:
    text = str(error).removeprefix("b'").rstrip("'")
    return text[:1].lower() + text[1:]


def _open(data: bytes, header: Header) -> Any:
    """Decode the whole image with Pillow."""
    from PIL import Image

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
    """The image rotated as its EXIF data ask for, encoded again with the same tables, without that request."""
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
    """The same of one of 16 bits per channel, as a PNG, in which it keeps them."""
    try:
        pixels = decode_wide(data)
    except (ValueError, OSError, SyntaxError) as error:
        raise BadImage(f"the {header.format.upper()} cannot be decoded: {_lower(error)}") from None
    height, width, channels = pixels.shape
    return encode_wide(pixels), Header("png", width, height, channels, 16)
