"""Encoded images to other encoded images, and pixels to encoded images, for builds that store small images."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel._native import Painting
from bushel.data.columns import BytesColumn, Column, Ragged
from bushel.data.samples import Sample
from bushel.errors import SchemaMismatch
from bushel.pixels.codecs import (
    ENCODED,
    KERNELS,
    Fit,
    Kernel,
    as_pixels,
    encode_pixels,
    format_of,
    full_of,
    is_wide,
    moved,
    place,
)
from bushel.pixels.codecs import (
    on_background as put_on,
)
from bushel.pixels.headers import Headers, NativeCodec, Undecoded, parse_header, read_headers
from bushel.transforms.canvas import decoded_sizes
from bushel.transforms.image import (
    WHITE,
    Depth,
    base_of,
    bytes_of,
    check_colour,
    check_depth,
    check_size,
    decoded,
    moved_sample,
    places,
    size_names,
    sized,
)
from bushel.transforms.interface import DeclaredTransform, Draw, Engine, image_of

Form: TypeAlias = Literal["jpeg", "png", "webp", "raw"]


class _Remade(DeclaredTransform, msgspec.Struct, frozen=True):
    """A transform of encoded images that the core does for those that it knows."""

    @property
    def in_core(self) -> bool:
        """Whether the core does it for the images that it knows."""
        form, dtype = self.form, self.dtype  # type: ignore[attr-defined]
        return dtype == "uint8" and (form is None or form in _CODECS)

    def apply_columns(self, columns: dict[str, Column]) -> dict[str, Column]:
        """Change many images at once, in the core."""
        made: dict[str, Column] = self.apply_counted(columns, None)  # type: ignore[attr-defined]
        return made


class ResizeEncoded(_Remade, frozen=True, tag="resize_encoded"):
    """Resize an encoded image and encode it again; `FEATURE/height` and so on, boxes and masks follow.

    It keeps its format (GIF, BMP and TIFF become PNG) unless `form` names another; "raw" stores pixels. Images
    of 16 bits per channel are cut to 8, unless `dtype="uint16"`: they are stored as PNG, or raw, with all 16 then. With
    `scaled`, a JPEG that is twice as large or more is decoded at half, quarter or eighth size: faster, and not quite
    the same. See `resize` for `fit`, `kernel` and `antialias`.
    """

    engines: ClassVar[tuple[Engine, ...]] = ("sample", "encoded")
    feature: str
    height: int
    width: int
    quality: int = 95  # of JPEG and WebP
    fit: Fit = "stretch"
    kernel: Kernel = "bilinear"
    fill: int = 0
    form: Form | None = None
    scaled: bool = False
    antialias: bool = True
    masks: tuple[str, ...] = ()
    dtype: Depth = "uint8"

    def __post_init__(self) -> None:
        check_size(self)
        check_form(self.form, self.quality, self.dtype)

    @property
    def decodes(self) -> str:
        """The feature whose images it decodes to the last pixel; none if it looks at a part of them."""
        return self.feature if self.in_core and self.fit != "crop" else ""

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Decode, resize with antialiasing, and encode."""
        data = bytes_of(sample, self.feature)
        at_least = (self.height, self.width) if self.scaled else None
        pixels = decoded(data, self.feature, draw, self.dtype, at_least=at_least)
        move = place(pixels.shape[:2], self.height, self.width, self.fit)
        made = moved(pixels, move, pixels.dtype, self)
        form = self.form or ("png" if self.dtype == "uint16" else own_form(data, self.feature))
        out = _encoded(made, form, self.quality)
        if (
            self.scaled and self.dtype == "uint8" and (size := _size_of(data)) is not None
        ):  # areas are in pixels of the whole image
            move = place(size, self.height, self.width, self.fit)
        changed = moved_sample(sample, self, move, made)
        return {**changed, **_named(sample, self.feature, out), self.feature: out}

    def apply_counted(self, columns: dict[str, Column], counted: Counter[str] | None) -> dict[str, Column]:
        """Change many images at once, and count those that lose bits."""
        headers = read_headers(_images_alone(columns, self))
        at_least = (self.height, self.width) if self.scaled else None
        moves = places(np.maximum(decoded_sizes(headers, upright=True, at_least=at_least), 1), self)
        remaking = _Remaking(
            Painting(
                at_least=at_least or (0, 0),
                kernel=KERNELS[self.kernel],
                antialias=self.antialias,
                fill=float(self.fill),
            ),
            np.array([move.whole for move in moves], np.int32).reshape(-1, 2),
            _codecs(headers, self.form),
            self.quality,
            np.array([(*move.part, *move.size, *move.at) for move in moves], np.int32).reshape(-1, 8),
        )
        return _remade(columns, self, remaking, counted)


def _size_of(data: bytes) -> tuple[int, int] | None:
    """Height and width of a JPEG, upright."""
    if format_of(data) != "jpeg":
        return None
    header = parse_header(data)
    return (header.width, header.height) if header.orientation >= 5 else (header.height, header.width)


class Reencode(_Remade, frozen=True, tag="reencode"):
    """An encoded image in another format. One that is in it already keeps its bytes, unless `quality` is given.

    Images of 16 bits per channel are cut to 8 by a change, unless `dtype="uint16"`, for the forms "png" and "raw".
    """

    engines: ClassVar[tuple[Engine, ...]] = ("sample", "encoded")
    feature: str
    form: Form
    quality: int | None = None  # of JPEG and WebP; None: 95
    dtype: Depth = "uint8"

    def __post_init__(self) -> None:
        check_form(self.form, 95 if self.quality is None else self.quality, self.dtype)

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Decode and encode, or leave it."""
        data = bytes_of(sample, self.feature)
        has_bits = self.dtype == "uint8" or is_wide(data)
        if has_bits and self.quality is None and self.form == own_form(data, self.feature, exactly=True):
            return sample
        pixels = decoded(data, self.feature, draw, self.dtype)
        out = _encoded(pixels, self.form, 95 if self.quality is None else self.quality)
        sizes = sized(sample, self.feature, pixels.shape)
        return {**sample, **sizes, **_named(sample, self.feature, out), self.feature: out}

    def apply_counted(self, columns: dict[str, Column], counted: Counter[str] | None) -> dict[str, Column]:
        """Change many images at once, and count those that lose bits."""
        headers = read_headers(_images_alone(columns, self))
        codecs = _codecs(headers, self.form)
        if self.quality is None:
            codecs[headers.codec == codecs] = NativeCodec.OTHER  # which are left as they are
        sizes = np.maximum(headers.sizes, 1).astype(np.int32)
        remaking = _Remaking(Painting(), sizes, codecs, 95 if self.quality is None else self.quality)
        return _remade(columns, self, remaking, counted)


_CODECS = {"jpeg": NativeCodec.JPEG, "png": NativeCodec.PNG}
_FORMS = {codec: form for form, codec in _CODECS.items()}


class _Remaking(NamedTuple):
    """How the core should encode many images: their sizes and codecs; `OTHER` leaves one to Python."""

    painting: Painting
    sizes: NDArray[np.int32]
    codecs: NDArray[np.uint8]
    quality: int
    moves: NDArray[np.int32] | None = None


def _codecs(headers: Headers, form: str | None) -> NDArray[np.uint8]:
    """The formats to encode images in, if the core knows them."""
    wanted = headers.codec if form is None else np.full_like(headers.codec, _CODECS[form])
    return np.where(headers.is_known, wanted, NativeCodec.OTHER).astype(np.uint8)


def _images_alone(columns: dict[str, Column], step: ResizeEncoded | Reencode) -> BytesColumn:
    """The images. Raises NotImplementedError if samples have to be changed one by one."""
    base, images = base_of(step.feature), columns.get(step.feature)
    stated = [columns[name] for name in size_names(step.feature) if name in columns]
    is_plain = all(isinstance(size, np.ndarray) for size in stated)
    is_plain &= isinstance(columns.get(f"{base}/format", images), BytesColumn)
    has_followers = any(name in step.masks or name.startswith(f"{base}/object/") for name in columns)
    if not step.in_core or has_followers or not is_plain or not isinstance(images, BytesColumn):
        raise NotImplementedError("samples have to be changed one by one")
    return images


def _remade(
    columns: dict[str, Column], step: ResizeEncoded | Reencode, remaking: _Remaking, counted: Counter[str] | None
) -> dict[str, Column]:
    """The columns with the new images and their sizes; images that the core cannot do are done one by one."""
    images, format_name = columns[step.feature], f"{base_of(step.feature)}/format"
    assert isinstance(images, BytesColumn)
    painting, sizes, codecs, quality, moves = remaking
    made: Any
    *made, channels, refused = _native.remake_images(
        images.offsets, images.data, painting, sizes, codecs, quality, moves
    )
    if refused and isinstance(images, Undecoded):
        raise ValueError("some of the images cannot be decoded")
    codecs[[row for row, _, _ in refused]] = NativeCodec.OTHER
    stated = dict(zip(size_names(step.feature), (sizes[:, 0], sizes[:, 1], channels), strict=True))
    changed: dict[str, Any] = {
        name: np.where(codecs != NativeCodec.OTHER, values, np.asarray(columns[name]))
        for name, values in stated.items()
        if name in columns
    }
    names = [name for name in (step.feature, format_name, *stated) if name in columns]
    alone = {
        row: step.apply({name: _value(columns[name], row) for name in names}, Draw(0, 0, 0, 0, counted))
        for row in np.flatnonzero(codecs == NativeCodec.OTHER).tolist()
    }
    for name, values in changed.items():
        values[list(alone)] = [sample[name] for sample in alone.values()]
    changed[step.feature] = done = BytesColumn(made[1], made[0])
    if alone:
        changed[step.feature] = BytesColumn.of(
            [alone[row][step.feature] if row in alone else done[row] for row in range(len(done))]
        )
    if format_name in columns:
        changed[format_name] = BytesColumn.of(
            [
                alone[row][format_name] if row in alone else _FORMS[NativeCodec(codec)]
                for row, codec in enumerate(codecs)
            ]
        )
    return {**columns, **changed}


def _value(column: Any, row: int) -> Any:
    return column[row] if isinstance(column, BytesColumn) else int(column[row])


_SHOWS = 16  # of 255, by which pixels of a drawing differ at least


class OnBackground(DeclaredTransform, msgspec.Struct, frozen=True, tag="on_background"):
    """Put an encoded image that has transparent pixels on a colour: it keeps its format, and has no alpha then.

    Other images stay as they are. Drawings that cannot be seen on this colour are counted.
    """

    engines: ClassVar[tuple[Engine, ...]] = ("sample", "encoded")
    feature: str = "image"
    background: tuple[int, int, int] = WHITE

    def __post_init__(self) -> None:
        check_colour(self.background)

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Put the image on the colour, if it has an alpha."""
        data = bytes_of(sample, self.feature)
        if format_of(data) == "jpeg":
            return sample
        pixels = decoded(data, self.feature, draw, "uint16" if is_wide(data) else "uint8")
        if pixels.shape[2] != 4:
            return sample
        made = put_on(pixels, self.background)
        self._note(pixels, made, draw)
        form = "png" if made.dtype == np.uint16 else own_form(data, self.feature)
        out = encode_pixels(made, form)
        sizes = sized(sample, self.feature, made.shape)
        return {**sample, **sizes, **_named(sample, self.feature, out), self.feature: out}

    def _note(self, pixels: NDArray[Any], made: NDArray[Any], draw: Draw) -> None:
        full = full_of(pixels.dtype)
        alpha, shows = pixels[..., 3], _SHOWS * (full // 255)
        if int(alpha.min()) < full:
            draw.note(f"transparent images put on a background ({self.feature})")
        if int(np.ptp(alpha)) > shows and int(np.ptp(made.reshape(-1, 3), axis=0).max()) <= shows:
            draw.note(f"drawings that cannot be seen on this background ({self.feature})")

    def apply_columns(self, columns: dict[str, Column]) -> dict[str, Column]:
        """Change many images at once."""
        return self.apply_counted(columns, None)

    def apply_counted(self, columns: dict[str, Column], counted: Counter[str] | None) -> dict[str, Column]:
        """Change the images that may have an alpha, and leave the others alone."""
        images = columns.get(self.feature)
        base = base_of(self.feature)
        names = [name for name in (f"{base}/format", *size_names(self.feature)) if name in columns]
        if not isinstance(images, BytesColumn) or any(isinstance(columns[name], Ragged) for name in names):
            raise NotImplementedError("samples have to be changed one by one")
        headers = read_headers(images)
        is_opaque = (headers.codec != NativeCodec.OTHER) & np.isin(headers.channels, (1, 3))
        for row in np.flatnonzero(is_opaque & (headers.codec == NativeCodec.PNG)).tolist():
            is_opaque[row] = not _has_clear_colour(images[row])
        changed: dict[str, Any] = {name: _listed(columns[name]) for name in (self.feature, *names)}
        for row in np.flatnonzero(~is_opaque).tolist():
            sample = {name: values[row] for name, values in changed.items()}
            for name, value in self.apply(sample, Draw(0, 0, 0, 0, counted)).items():
                changed[name][row] = value
        return {**columns, **{name: _as_before(values, columns[name]) for name, values in changed.items()}}


def _has_clear_colour(png: bytes) -> bool:
    """Whether one colour of a PNG without alpha is transparent: a chunk before its pixels says so."""
    return png.find(b"tRNS", 0, max(0, png.find(b"IDAT"))) > 0


def _listed(column: Column) -> list[Any]:
    return column.to_list() if isinstance(column, BytesColumn) else np.asarray(column).tolist()


def _as_before(values: list[Any], column: Column) -> Column:
    return BytesColumn.of(values) if isinstance(column, BytesColumn) else np.asarray(values, np.asarray(column).dtype)


class EncodeImage(DeclaredTransform, msgspec.Struct, frozen=True, tag="encode_image"):
    """Pixels, as they come from `decode_image` and others, to encoded bytes; uint16 to a PNG of 16 bits per channel."""

    feature: str
    form: Literal["jpeg", "png", "webp"] = "jpeg"
    quality: int = 95  # of JPEG and WebP

    def __post_init__(self) -> None:
        if self.form not in ENCODED:
            raise ValueError(f"form must be one of {', '.join(ENCODED)}; got {self.form!r}")
        check_form(self.form, self.quality)

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Encode the image."""
        image = image_of(sample, self.feature)
        if image.dtype == np.uint16 and self.form != "png":
            what = f"{self.form} has 8 bits per channel, and the pixels are uint16"
            raise SchemaMismatch(what, at=self.feature, help=['form="png" keeps all 16 bits'])
        if image.dtype == np.float32:
            image = as_pixels(image, np.dtype(np.uint8))
        if image.shape[2] not in (1, 3, 4):
            raise SchemaMismatch(f"expected 1, 3 or 4 channels, got {image.shape[2]}", at=self.feature)
        out = encode_pixels(image, self.form, self.quality)
        sizes = sized(sample, self.feature, image.shape)
        return {**sample, **sizes, **_named(sample, self.feature, out), self.feature: out}


def check_form(form: str | None, quality: int, dtype: str = "uint8") -> None:
    """Refuse impossible formats and qualities."""
    check_depth(dtype)
    if form is not None and form not in (*ENCODED, "raw"):
        raise ValueError(f"form must be one of {', '.join(ENCODED)}, raw; got {form!r}")
    if dtype == "uint16" and form in ("jpeg", "webp"):
        raise ValueError(f"form must be png or raw for dtype='uint16', got {form!r}: it has 8 bits per channel")
    if not 1 <= quality <= 100:
        raise ValueError(f"quality must be from 1 to 100, got {quality}")


def own_form(data: bytes, feature: str, *, exactly: bool = False) -> str:
    """The format of an encoded image; PNG if the format cannot be written, unless `exactly`."""
    try:
        form = format_of(data)
    except ValueError as error:
        raise SchemaMismatch(f"the image cannot be decoded: {error}", at=feature) from None
    return form if exactly or form in ENCODED else "png"


def _encoded(pixels: NDArray[Any], form: str, quality: int) -> Any:
    return pixels if form == "raw" else encode_pixels(pixels, form, quality)


def _named(sample: Sample, feature: str, out: Any) -> Sample:
    """Update the format of an image, if the sample has it, and its channels, if a JPEG dropped one."""
    base = base_of(feature)
    found: Sample = {}
    if f"{base}/format" in sample:
        found[f"{base}/format"] = format_of(out) if isinstance(out, bytes) else "raw"
    if f"{base}/channels" in sample and isinstance(out, bytes) and format_of(out) == "jpeg":
        found[f"{base}/channels"] = 1 if parse_header(out).channels == 1 else 3
    return found


resize_encoded, reencode, encode_image, on_background = ResizeEncoded, Reencode, EncodeImage, OnBackground
