"""Images: encoded bytes to pixels, and pixels to the size of a model."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.errors import SchemaMismatch
from bushel.pixels.colours import to_channels
from bushel.pixels.decoding import MODES, decode_pixels
from bushel.pixels.depth import decode_wide, is_wide
from bushel.pixels.placing import FITS, Fit, Move, place
from bushel.pixels.resizing import KERNELS, Kernel, moved
from bushel.records import Sample
from bushel.transforms.counting import note
from bushel.transforms.geometry import follow, sized
from bushel.transforms.protocol import Draw, Room
from bushel.transforms.values import image_of, value_of

__all__ = ["center_crop", "convert_colour", "decode_image", "resize"]

Depth: TypeAlias = Literal["uint8", "uint16"]
DEPTHS = ("uint8", "uint16")


class DecodeImage(msgspec.Struct, frozen=True, tag="decode_image"):
    """Encoded bytes (JPEG, PNG, WebP and all that Pillow reads) to pixels, height x width x channels.

    They are uint8: of images of 16 bits a channel the upper 8 are kept, and a build counts them. With
    `dtype="uint16"`, all 16 are; images of 8 are multiplied by 257 then, so that white is 65535 in all.

    Turned upright where EXIF data ask for it. With `at_least`, a JPEG that is twice this height and width or more is
    decoded at half, quarter or eighth size: that is faster, and not quite the same.
    """

    feature: str = "image"
    channels: Literal[1, 3, 4] = 3
    at_least: tuple[int, int] | None = None
    upright: bool = True
    dtype: Depth = "uint8"

    def __post_init__(self) -> None:
        if self.channels not in MODES:
            raise ValueError(f"channels must be one of 1, 3, 4; got {self.channels}")
        check_depth(self.dtype)

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Decode the image; the frames of a clip become one array of as many steps."""
        frames = value_of(sample, self.feature)
        if isinstance(frames, list) and frames and all(isinstance(frame, bytes) for frame in frames):
            alone = [self.apply({self.feature: frame}, draw)[self.feature] for frame in frames]
            if len({pixels.shape for pixels in alone}) > 1:
                raise SchemaMismatch("frames of one clip must have one size", at=self.feature)
            return {**sample, self.feature: np.stack(alone)}
        data = bytes_of(sample, self.feature)
        how: dict[str, Any] = {"channels": self.channels, "upright": self.upright, "at_least": self.at_least}
        pixels = decoded(data, self.feature, self.dtype, **how)
        return {**sample, self.feature: pixels, **sized(sample, self.feature, pixels.shape)}


def check_depth(dtype: str) -> None:
    """Refuse dtypes that encoded images do not have."""
    if dtype not in DEPTHS:
        raise ValueError(f"dtype must be one of {', '.join(DEPTHS)}; got {dtype!r}")


def decoded(
    data: bytes,
    feature: str,
    dtype: str = "uint8",
    *,
    channels: int | None = None,
    upright: bool = True,
    at_least: tuple[int, int] | None = None,
) -> NDArray[Any]:
    """The pixels of an encoded image; one that loses bits is noted."""
    try:
        if dtype == "uint16":
            return decode_wide(data, channels, upright=upright)
        if is_wide(data):
            note(f"images cut from 16 to 8 bits ({feature})")
        return decode_pixels(data, channels, upright=upright, at_least=at_least)
    except (ValueError, OSError, SyntaxError) as error:
        raise SchemaMismatch(f"the image cannot be decoded: {error}", at=feature) from None


def bytes_of(sample: Sample, feature: str) -> bytes:
    """The value of a feature that must be an encoded image."""
    data = value_of(sample, feature)
    if not isinstance(data, bytes):
        raise SchemaMismatch(f"expected the bytes of an image, got {type(data).__name__}", at=feature)
    return data


class Resize(msgspec.Struct, frozen=True, tag="resize"):
    """Pixels to one size. `antialias` counts every pixel when shrinking. Boxes and masks follow.

    `fit` says what happens where the shape is another: "stretch" changes it, "fit" makes an image that is smaller on
    one side, "pad" fills that side up with `fill`, "crop" takes the largest middle part of the shape. Kernels:
    "bilinear" as `tf.image.resize`, "area" as cv2's INTER_AREA, "bicubic" as Pillow's and `tf.image.resize`'s.
    """

    feature: str
    height: int
    width: int
    antialias: bool = False
    dtype: Literal["uint8", "float32"] | None = None  # None: as it was; uint16 keeps its range as float32
    fit: Fit = "stretch"
    kernel: Kernel = "bilinear"
    fill: int = 0
    masks: tuple[str, ...] = ()  # features that are masks of the image

    def __post_init__(self) -> None:
        check_size(self)

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Resize the image."""
        image = image_of(sample, self.feature)
        move = place(image.shape[:2], self.height, self.width, self.fit)
        pixels = moved(image, move, np.dtype(self.dtype or image.dtype), self)
        return moved_sample(sample, self, move, pixels)

    def apply_at(self, sample: Sample, draw: Draw, room: Room) -> Sample:
        """Resize the image straight into its batch."""
        image = image_of(sample, self.feature)
        dtype = np.dtype(self.dtype or image.dtype)
        is_plain = self.fit == "stretch" and (image.dtype == np.uint8 or image.dtype == dtype == np.float32)
        out = room(self.feature, (self.height, self.width, image.shape[2]), dtype) if is_plain else None
        if out is None:
            return self.apply(sample, draw)
        _native.resize_into(np.ascontiguousarray(image), out, self.antialias, KERNELS[self.kernel])
        return moved_sample(sample, self, place(image.shape[:2], self.height, self.width, "stretch"), out)


def check_size(step: Any) -> None:
    """Refuse sizes and words that cannot be."""
    for name in ("height", "width"):
        if getattr(step, name) < 1:
            raise ValueError(f"{name} must be at least 1, got {getattr(step, name)}")
    for name, words in (("fit", FITS), ("kernel", tuple(KERNELS))):
        if getattr(step, name, words[0]) not in words:
            raise ValueError(f"{name} must be one of {', '.join(words)}; got {getattr(step, name)!r}")
    if isinstance(getattr(step, "masks", ()), str):
        raise ValueError(f"masks must be a list of features, got {step.masks!r}")


def moved_sample(sample: Sample, step: Any, move: Move, pixels: Any) -> Sample:
    """The sample with other pixels, and all that follows them."""
    shape = (*move.whole, *pixels.shape[2:]) if isinstance(pixels, np.ndarray) else move.whole
    changed = follow(sample, step.feature, move, step.masks)
    return {**sample, **changed, **sized(sample, step.feature, shape), step.feature: pixels}


class CenterCrop(msgspec.Struct, frozen=True, tag="center_crop"):
    """The middle of the image, where it must be the upper or left pixel of two, as Keras. Boxes and masks follow."""

    feature: str
    height: int
    width: int
    masks: tuple[str, ...] = ()

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Cut the image."""
        return cut_sample(sample, self)


class ConvertColour(msgspec.Struct, frozen=True, tag="convert_colour"):
    """Pixels of 1, 3 or 4 channels to another number of them: grey by 0.299 R + 0.587 G + 0.114 B, as Pillow."""

    feature: str
    channels: Literal[1, 3, 4]

    def __post_init__(self) -> None:
        if self.channels not in MODES:
            raise ValueError(f"channels must be one of 1, 3, 4; got {self.channels}")

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Convert the image."""
        pixels = with_channels(image_of(sample, self.feature), self.channels, self.feature)
        return {**sample, self.feature: pixels, **sized(sample, self.feature, pixels.shape)}


def with_channels(image: NDArray[Any], channels: int, feature: str) -> NDArray[Any]:
    """Pixels with so many channels; alpha is dropped, or full."""
    if image.shape[2] not in MODES:
        raise SchemaMismatch(f"expected 1, 3 or 4 channels, got {image.shape[2]}", at=feature)
    return to_channels(image, channels)


def cut_sample(sample: Sample, step: Any, at: tuple[float, float] | None = None) -> Sample:
    """A sample whose image is cut to the size of a step; `at` says where in the room there is, 0 to 1; None: middle."""
    image = image_of(sample, step.feature)
    move = cut(image.shape[:2], step, at)
    top, left, height, width = move.part
    return moved_sample(sample, step, move, image[top : top + height, left : left + width])


def cut(size: tuple[int, int], step: Any, at: tuple[float, float] | None) -> Move:
    """How an image is cut."""
    down, across = size[0] - step.height, size[1] - step.width
    if down < 0 or across < 0:
        raise SchemaMismatch(
            f"the image is {size[0]} x {size[1]}, smaller than the crop of {step.height} x {step.width}",
            at=step.feature,
        )
    top, left = down // 2, across // 2
    if at is not None:
        top, left = min(int(at[0] * (down + 1)), down), min(int(at[1] * (across + 1)), across)
    return Move(size, (top, left, step.height, step.width), (step.height, step.width))


decode_image, resize, center_crop, convert_colour = DecodeImage, Resize, CenterCrop, ConvertColour
