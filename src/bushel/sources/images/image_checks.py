"""Whether images can really be used: looked at by their headers, or decoded; and turned upright."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.columns import BytesColumn, Column
from bushel.data.schema import Feature
from bushel.pixels.codecs import decode_wide, encode_wide
from bushel.pixels.headers import BadImage, Header, parse_header

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
        if header.bits > 8 and "16-bit" not in self.allow:
            raise BadImage(f"it has {header.bits} bits per channel, and most readers keep 8: allow 16-bit to store it")
        if header.is_animated and "animated" not in self.allow:
            raise BadImage("it is animated, and most readers fail or take one frame: allow animated to keep it")

    def check_all(self, images: Iterable[bytes], name: str) -> CheckedImages:
        """Many images as columns `name`, `name/height`, `name/width`, `name/channels`."""
        rows: list[int] = []
        kept: list[bytes] = []
        sizes: list[tuple[int, int, int]] = []
        bad: dict[int, str] = {}
        turned = 0
        for row, given in enumerate(images):
            if self.verify == "none":
                rows.append(row)
                kept.append(given)
                continue
            try:
                data, header = self.check(given)
            except BadImage as error:
                bad[row] = str(error)
                continue
            turned += data is not given
            rows.append(row)
            kept.append(data)
            sizes.append((header.height, header.width, header.channels))
        columns: dict[str, Column] = {name: BytesColumn.of(kept)}
        if self.verify != "none":
            numbers = np.array(sizes, np.int64).reshape(-1, 3)
            columns |= {f"{name}/{what}": np.ascontiguousarray(numbers[:, i]) for i, what in enumerate(_MORE)}
        return CheckedImages(rows, columns, bad, {"images turned upright": turned} if turned else {})

    def check_column(self, images: BytesColumn, name: str) -> CheckedImages:
        """The same of a column; images that are nothing unusual and stay as they are cost no object each."""
        count = len(images)
        if self.verify == "none":
            return CheckedImages(list(range(count)), {name: images}, {}, {})
        found: Any = _native.jpeg_headers(images.offsets, images.data)
        sizes = found.reshape(-1, 3)
        is_plain = (sizes[:, 0] > 0) & (sizes[:, 0] * sizes[:, 1] <= self.max_pixels)
        changed, bad = self._check_rows(images, sizes, is_plain)
        columns: dict[str, Column] = {name: images}
        rows = list(range(count))
        if changed or bad:
            rows = [row for row in rows if row not in bad]
            columns[name] = BytesColumn.of([changed.get(row) or images[row] for row in rows])
        columns |= {f"{name}/{what}": np.ascontiguousarray(sizes[rows, i]) for i, what in enumerate(_MORE)}
        return CheckedImages(rows, columns, bad, {"images turned upright": len(changed)} if changed else {})

    def _check_rows(
        self, images: BytesColumn, sizes: NDArray[np.int64], is_plain: NDArray[np.bool_]
    ) -> tuple[dict[int, bytes], dict[int, str]]:
        """Look at what is not plain, and decode where that is asked for; what was changed, and what is bad."""
        changed: dict[int, bytes] = {}
        bad: dict[int, str] = {}
        memory = images.data.data
        for row in range(len(images)) if self.verify == "decode" else np.flatnonzero(~is_plain).tolist():
            try:
                if is_plain[row]:
                    height, width, channels = sizes[row].tolist()
                    begin, end = images.offsets[row : row + 2].tolist()
                    _decode(memory[begin:end], Header("jpeg", width, height, channels))
                    continue
                given = images[row]
                data, header = self.check(given)
            except BadImage as error:
                bad[row] = str(error)
                continue
            if data is not given:
                changed[row] = data
            sizes[row] = header.height, header.width, header.channels
        return changed, bad


def _decode(data: Any, header: Header) -> None:
    """Read every coefficient of the image, at the smallest scale there is."""
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
