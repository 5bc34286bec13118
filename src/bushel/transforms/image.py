"""Images: encoded bytes to pixels, and pixels to the size of a model."""

from __future__ import annotations

import io
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.errors import SchemaMismatch
from bushel.records import Sample
from bushel.transforms.protocol import Draw, Room
from bushel.transforms.values import image_of, value_of

__all__ = ["center_crop", "crop", "decode_image", "resize", "resize_pixels"]

_JPEG = b"\xff\xd8\xff"
_COLOURS = {1: ("GRAY", "L"), 3: ("RGB", "RGB"), 4: ("RGBA", "RGBA")}


class DecodeImage(msgspec.Struct, frozen=True, tag="decode_image"):
    """Encoded bytes (JPEG, PNG, WebP and all that Pillow reads) to uint8 pixels, height x width x channels.

    With `at_least`, a JPEG that is twice this height and width or more is decoded at half, quarter or eighth size: that
    is faster, and not quite the same.
    """

    feature: str = "image"
    channels: Literal[1, 3, 4] = 3
    at_least: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.channels not in _COLOURS:
            raise ValueError(f"channels must be one of 1, 3, 4; got {self.channels}")

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Decode the image."""
        data = value_of(sample, self.feature)
        if not isinstance(data, bytes):
            raise SchemaMismatch(f"expected the bytes of an image, got {type(data).__name__}", at=self.feature)
        try:
            pixels = self._decode_jpeg(data) if data[:3] == _JPEG else self._decode_other(data)
        except (ValueError, OSError, SyntaxError) as error:
            raise SchemaMismatch(f"the image cannot be decoded: {error}", at=self.feature) from None
        return {**sample, self.feature: pixels}

    def _decode_jpeg(self, data: bytes) -> NDArray[np.uint8]:
        import simplejpeg

        height, width = self.at_least or (0, 0)
        pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(
            data, colorspace=_COLOURS[self.channels][0], min_height=height, min_width=width, min_factor=2
        )
        return pixels

    def _decode_other(self, data: bytes) -> NDArray[np.uint8]:
        from PIL import Image

        with Image.open(io.BytesIO(data)) as image:
            pixels = np.array(image.convert(_COLOURS[self.channels][1]))
        return pixels.reshape(*pixels.shape[:2], self.channels)


class Resize(msgspec.Struct, frozen=True, tag="resize"):
    """Pixels to one size: bilinear, as `tf.image.resize` does it. `antialias` counts every pixel when shrinking."""

    feature: str
    height: int
    width: int
    antialias: bool = False
    dtype: Literal["uint8", "float32"] | None = None  # None: as it was

    def __post_init__(self) -> None:
        for name in ("height", "width"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Resize the image."""
        image = image_of(sample, self.feature)
        dtype = np.dtype(self.dtype or image.dtype)
        return {**sample, self.feature: resize_pixels(image, self.height, self.width, dtype, antialias=self.antialias)}

    def apply_at(self, sample: Sample, draw: Draw, room: Room) -> Sample:
        """Resize the image straight into its batch."""
        image = image_of(sample, self.feature)
        dtype = np.dtype(self.dtype or image.dtype)
        is_narrowed = image.dtype == np.float32 and dtype == np.uint8
        out = None if is_narrowed else room(self.feature, (self.height, self.width, image.shape[2]), dtype)
        if out is None:
            return self.apply(sample, draw)
        _native.resize_into(np.ascontiguousarray(image), out, self.antialias)
        return {**sample, self.feature: out}


class CenterCrop(msgspec.Struct, frozen=True, tag="center_crop"):
    """The middle of the image."""

    feature: str
    height: int
    width: int

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Cut the image."""
        return {**sample, self.feature: crop(image_of(sample, self.feature), self, (0.5, 0.5))}


def crop(image: NDArray[Any], size: Any, at: tuple[float, float]) -> NDArray[Any]:
    """Cut out a part; `at` says where in the room that is left, 0 to 1 down and across."""
    down, across = image.shape[0] - size.height, image.shape[1] - size.width
    if down < 0 or across < 0:
        raise SchemaMismatch(
            f"the image is {image.shape[0]} x {image.shape[1]}, smaller than the crop of {size.height} x {size.width}",
            at=size.feature,
        )
    top, left = min(int(at[0] * (down + 1)), down), min(int(at[1] * (across + 1)), across)
    return image[top : top + size.height, left : left + size.width]


def resize_pixels(
    image: NDArray[Any], height: int, width: int, dtype: np.dtype[Any], *, antialias: bool = False
) -> NDArray[Any]:
    """Pixels resized, as uint8 or float32."""
    image = np.ascontiguousarray(image)
    out: Any
    if image.dtype == np.uint8:
        make = _native.resize_to_bytes if dtype == np.uint8 else _native.resize_to_floats
        out = make(image, height, width, antialias)
    else:
        out = _native.resize_floats(image, height, width, antialias)
        if dtype == np.uint8:
            out = np.clip(np.rint(out), 0, 255).astype(np.uint8)
    return out  # type: ignore[no-any-return]


decode_image, resize, center_crop = DecodeImage, Resize, CenterCrop
