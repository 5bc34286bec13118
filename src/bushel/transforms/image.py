"""Images: encoded bytes to pixels, and pixels to the size of a model."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.samples import Sample
from bushel.errors import SchemaMismatch
from bushel.pixels.codecs import (
    FITS,
    KERNELS,
    MODES,
    Boxes,
    Fit,
    Kernel,
    Move,
    decode_pixels,
    decode_wide,
    encode_pixels,
    is_wide,
    moved,
    on_background,
    place,
    to_channels,
)
from bushel.transforms.canvas import Canvas, Ints
from bushel.transforms.interface import EVERY_ENGINE, DeclaredTransform, Draw, Draws, Engine, image_of, value_of

_CORNERS = ("xmin", "ymin", "xmax", "ymax")


def base_of(feature: str) -> str:
    """The prefix of the features of an image: `image` for `image` and for `image/encoded`."""
    return feature.removesuffix("/encoded")


def sized(sample: Sample, feature: str, shape: Sequence[int]) -> Sample:
    """Update height, width and channels of an image, if the sample has them."""
    return {name: int(size) for name, size in zip(size_names(feature), shape, strict=False) if name in sample}


def size_names(feature: str) -> tuple[str, str, str]:
    """The names of the features for height, width and channels of an image."""
    base = base_of(feature)
    return f"{base}/height", f"{base}/width", f"{base}/channels"


def follow(sample: Sample, feature: str, move: Move, masks: Sequence[str] = ()) -> Sample:
    """Move everything that belongs to an image with it: boxes, what is known about their objects, and masks."""
    return _follow(sample, feature, masks, move.boxes, move.mask, move.shares)


def follow_rotation(
    sample: Sample, feature: str, degrees: float, size: tuple[int, int], masks: Sequence[str]
) -> Sample:
    """The same for an image that is rotated about its centre: a box becomes the one around its rotated corners."""

    def turn_mask(mask: NDArray[Any]) -> NDArray[Any]:
        from PIL import Image

        return np.asarray(Image.fromarray(mask).rotate(degrees, Image.Resampling.NEAREST))

    def turn(boxes: Boxes) -> Boxes:
        return turned_boxes(boxes, degrees, size)

    return _follow(sample, feature, masks, turn, turn_mask, lambda before, _: np.ones(len(before)))


def turned_boxes(boxes: Boxes, degrees: float, size: tuple[int, int]) -> Boxes:
    """The boxes around boxes that are rotated counterclockwise about the centre, clipped to the image."""
    height, width = size
    angle = math.radians(degrees)
    x = (boxes[:, [0, 2, 0, 2]] - 0.5) * width
    y = (boxes[:, [1, 1, 3, 3]] - 0.5) * height
    across = (x * math.cos(angle) + y * math.sin(angle)) / width + 0.5
    down = (y * math.cos(angle) - x * math.sin(angle)) / height + 0.5
    ends = [across.min(axis=1), down.min(axis=1), across.max(axis=1), down.max(axis=1)]
    return np.asarray(np.clip(np.stack(ends, axis=1), 0, 1))


def _follow(
    sample: Sample,
    feature: str,
    masks: Sequence[str],
    move_boxes: Callable[[Boxes], Boxes],
    move_mask: Callable[[NDArray[Any]], NDArray[Any]],
    shares: Callable[[Boxes, Boxes], NDArray[np.float64]],
) -> Sample:
    changed: Sample = {}
    for name in masks:
        if name in sample:
            changed[name] = _moved_mask(sample[name], name, move_mask)
    objects = f"{base_of(feature)}/object"
    names = [f"{objects}/bbox/{corner}" for corner in _CORNERS]
    if names[0] not in sample:
        return changed
    before = np.stack([np.asarray(sample[name], np.float64).reshape(-1) for name in names], axis=1)
    after = move_boxes(before)
    kept = np.flatnonzero((after[:, 2] > after[:, 0]) & (after[:, 3] > after[:, 1]))
    for at, name in enumerate(names):
        changed[name] = after[kept, at].astype(np.float32)
    for name, value in sample.items():
        if name.startswith(f"{objects}/") and name not in names:
            changed[name] = _pick(value, kept, len(before), name)
    if f"{objects}/mask" in changed:
        changed[f"{objects}/mask"] = [_moved_mask(mask, objects, move_mask) for mask in changed[f"{objects}/mask"]]
    if f"{objects}/area" in changed:
        areas = np.asarray(changed[f"{objects}/area"], np.float64) * shares(before[kept], after[kept])
        changed[f"{objects}/area"] = areas.astype(np.float32)
    return changed


def _pick(value: Any, kept: NDArray[np.int64], count: int, name: str) -> Any:
    """What is known about objects, for those that remain."""
    values = value.to_list() if hasattr(value, "to_list") else value
    if len(values) != count:
        raise SchemaMismatch(f"there are {count} boxes and {len(values)} values", at=name)
    return values[kept] if isinstance(values, np.ndarray) else [values[at] for at in kept.tolist()]


def _moved_mask(mask: Any, name: str, move: Callable[[NDArray[Any]], NDArray[Any]]) -> Any:
    if isinstance(mask, np.ndarray):
        return move(mask)
    if not isinstance(mask, bytes):
        raise SchemaMismatch(f"expected a mask as pixels or as a PNG, got {type(mask).__name__}", at=name)
    from PIL import Image

    with Image.open(io.BytesIO(mask)) as image:
        if image.mode not in ("L", "1", "P", "RGB", "RGBA", "I;16"):
            raise SchemaMismatch(f"masks must have 8 or 16 bits a pixel, got {image.mode}", at=name)
        palette = image.getpalette() if image.mode == "P" else None
        pixels = np.asarray(image.convert("L") if image.mode == "1" else image)
    moved = move(pixels)
    if palette is None:
        return encode_pixels(moved.reshape(*moved.shape[:2], -1), "png")
    out = io.BytesIO()
    made = Image.fromarray(moved, "P")
    made.putpalette(palette)
    made.save(out, "PNG")
    return out.getvalue()


Depth: TypeAlias = Literal["uint8", "uint16"]
DEPTHS = ("uint8", "uint16")


WHITE = (255, 255, 255)


class DecodeImage(DeclaredTransform, msgspec.Struct, frozen=True, tag="decode_image"):
    """Encoded bytes (JPEG, PNG, WebP and all that Pillow reads) to pixels, height x width x channels.

    Pixels are uint8: images with 16 bits per channel keep the upper 8, and a build counts them. With `dtype="uint16"`
    they keep all 16, and values of 8 bits are multiplied by 257, so that white is always 65535.

    If the requested channels have no alpha, transparent pixels get a background: white, or the colour `background`.
    Images are turned upright by their EXIF data. With `at_least`, a JPEG that is twice this height and width or more is
    decoded at half, quarter or eighth size, which is faster, but not exactly the same.
    """

    engines: ClassVar[tuple[Engine, ...]] = EVERY_ENGINE
    feature: str = "image"
    channels: Literal[1, 3, 4] = 3
    at_least: tuple[int, int] | None = None
    upright: bool = True
    dtype: Depth = "uint8"
    background: tuple[int, int, int] = WHITE

    def __post_init__(self) -> None:
        if self.channels not in MODES:
            raise ValueError(f"channels must be one of 1, 3, 4; got {self.channels}")
        check_colour(self.background)
        check_depth(self.dtype)

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Decode the image; the frames of a clip become one array, one step per frame."""
        frames = value_of(sample, self.feature)
        if isinstance(frames, list) and frames and all(isinstance(frame, bytes) for frame in frames):
            alone = [self.apply({self.feature: frame}, draw)[self.feature] for frame in frames]
            if len({pixels.shape for pixels in alone}) > 1:
                raise SchemaMismatch("frames of one clip must have one size", at=self.feature)
            return {**sample, self.feature: np.stack(alone)}
        data = bytes_of(sample, self.feature)
        how: dict[str, Any] = {"upright": self.upright, "at_least": self.at_least}
        if self.background == WHITE or self.channels == 4:
            pixels = decoded(data, self.feature, draw, self.dtype, channels=self.channels, **how)
        else:
            pixels = decoded(data, self.feature, draw, self.dtype, **how)
            pixels = on_background(pixels, self.background) if pixels.shape[2] == 4 else pixels
            pixels = to_channels(pixels, self.channels)
        return {**sample, self.feature: pixels, **sized(sample, self.feature, pixels.shape)}

    def paint(self, canvas: Canvas, draws: Draws) -> bool:
        """Decode all images of a batch."""
        if self.dtype != "uint8" or (self.background != WHITE and self.channels != 4):
            return False
        how: dict[str, Any] = {"upright": self.upright, "at_least": self.at_least}
        draw = Draw(draws.seed, draws.epoch, 0, draws.step)
        return canvas.decode(
            self.channels, lambda data: decoded(data, self.feature, draw, channels=self.channels, **how), **how
        )


def check_colour(background: Sequence[int]) -> None:
    """Refuse what is not a colour."""
    if len(background) != 3 or not all(0 <= value <= 255 for value in background):
        raise ValueError(f"background must be red, green and blue from 0 to 255, got {background}")


def check_depth(dtype: str) -> None:
    """Refuse dtypes that encoded images cannot have."""
    if dtype not in DEPTHS:
        raise ValueError(f"dtype must be one of {', '.join(DEPTHS)}; got {dtype!r}")


def decoded(
    data: bytes,
    feature: str,
    draw: Draw,
    dtype: str = "uint8",
    *,
    channels: int | None = None,
    upright: bool = True,
    at_least: tuple[int, int] | None = None,
) -> NDArray[Any]:
    """The pixels of an encoded image; one that loses bits is counted."""
    try:
        if dtype == "uint16":
            return decode_wide(data, channels, upright=upright)
        if is_wide(data):
            draw.note(f"images cut from 16 to 8 bits ({feature})")
        return decode_pixels(data, channels, upright=upright, at_least=at_least)
    except (ValueError, OSError, SyntaxError) as error:
        raise SchemaMismatch(f"the image cannot be decoded: {error}", at=feature) from None


def bytes_of(sample: Sample, feature: str) -> bytes:
    """The value of a feature that must be an encoded image."""
    data = value_of(sample, feature)
    if not isinstance(data, bytes):
        raise SchemaMismatch(f"expected the bytes of an image, got {type(data).__name__}", at=feature)
    return data


class Resize(DeclaredTransform, msgspec.Struct, frozen=True, tag="resize"):
    """Resize pixels. With `antialias`, every pixel counts when shrinking. Boxes and masks follow.

    `fit` says what to do if the aspect ratio differs: "stretch" changes it, "fit" makes the image smaller on one side,
    "pad" fills that side with `fill`, "crop" takes the largest central part with the right aspect ratio. Kernels:
    "bilinear" as `tf.image.resize`, "area" as cv2's INTER_AREA, "bicubic" as Pillow's and `tf.image.resize`'s.
    """

    engines: ClassVar[tuple[Engine, ...]] = EVERY_ENGINE
    feature: str
    height: int
    width: int
    antialias: bool = False
    dtype: Literal["uint8", "float32"] | None = None  # None: unchanged; uint16 keeps its range as float32
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

    def paint(self, canvas: Canvas, draws: Draws) -> bool:  # noqa: ARG002
        """Resize all images of a batch."""
        if not canvas.is_open:
            return False
        moves = places(canvas.sizes, self)
        how: dict[str, Any] = {"kernel": self.kernel, "antialias": self.antialias, "fill": self.fill}
        if self.fit == "crop":
            how["part"] = np.array([move.part for move in moves])
        if self.fit == "pad":
            how |= {"at": np.array([move.at for move in moves]), "into": (self.height, self.width)}
        return canvas.resize(np.array([move.size for move in moves]), dtype=self.dtype, **how)


def places(sizes: Ints, step: Any) -> list[Move]:
    """The moves for images of these sizes, of which there are usually few."""
    known: dict[tuple[int, int], Move] = {}
    found = []
    for tall, wide in sizes.tolist():
        if (tall, wide) not in known:
            known[tall, wide] = place((tall, wide), step.height, step.width, step.fit)
        found.append(known[tall, wide])
    return found


def check_size(step: Any) -> None:
    """Refuse impossible sizes and choices."""
    for name in ("height", "width"):
        if getattr(step, name) < 1:
            raise ValueError(f"{name} must be at least 1, got {getattr(step, name)}")
    for name, words in (("fit", FITS), ("kernel", tuple(KERNELS))):
        if getattr(step, name, words[0]) not in words:
            raise ValueError(f"{name} must be one of {', '.join(words)}; got {getattr(step, name)!r}")
    if isinstance(step.masks, str):
        raise ValueError(f"masks must be a list of features, got {step.masks!r}")


def moved_sample(sample: Sample, step: Any, move: Move, pixels: Any) -> Sample:
    """The sample with the new pixels, and everything that follows them."""
    shape = (*move.whole, *pixels.shape[2:]) if isinstance(pixels, np.ndarray) else move.whole
    changed = follow(sample, step.feature, move, step.masks)
    return {**sample, **changed, **sized(sample, step.feature, shape), step.feature: pixels}


class CenterCrop(DeclaredTransform, msgspec.Struct, frozen=True, tag="center_crop"):
    """The centre of the image; of two possible pixels, the upper or left one, as in Keras. Boxes and masks follow."""

    engines: ClassVar[tuple[Engine, ...]] = EVERY_ENGINE
    feature: str
    height: int
    width: int
    masks: tuple[str, ...] = ()

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Cut the image."""
        return cut_sample(sample, self)

    def paint(self, canvas: Canvas, draws: Draws) -> bool:  # noqa: ARG002
        """Cut all images of a batch."""
        return cut_canvas(canvas, self, lambda room: room // 2)


class ConvertColour(DeclaredTransform, msgspec.Struct, frozen=True, tag="convert_colour"):
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
    """Pixels with this many channels; alpha is dropped, or opaque."""
    if image.shape[2] not in MODES:
        raise SchemaMismatch(f"expected 1, 3 or 4 channels, got {image.shape[2]}", at=feature)
    return to_channels(image, channels)


def cut_sample(sample: Sample, step: Any, at: tuple[float, float] | None = None) -> Sample:
    """Crop the image of a sample to the size of a step; `at` is the place in the free space, 0 to 1; None: centre."""
    image = image_of(sample, step.feature)
    move = cut(image.shape[:2], step, at)
    top, left, height, width = move.part
    return moved_sample(sample, step, move, image[top : top + height, left : left + width])


def cut_canvas(canvas: Canvas, step: Any, corner: Callable[[Ints], Ints]) -> bool:
    """Crop the images of a batch to the size of a step; `corner` returns the position, given the free space."""
    if not canvas.is_open:
        return False
    room = canvas.sizes - (step.height, step.width)
    if (is_small := (room < 0).any(axis=1)).any():
        canvas.refuse(is_small, lambda row: _too_small(canvas.sizes[row], step))
    corners = corner(np.maximum(room, 0))
    return canvas.crop(np.concatenate([corners, np.full_like(corners, (step.height, step.width))], axis=1))


def _too_small(size: Sequence[int], step: Any) -> SchemaMismatch:
    return SchemaMismatch(
        f"the image is {size[0]} x {size[1]}, smaller than the crop of {step.height} x {step.width}", at=step.feature
    )


def cut(size: tuple[int, int], step: Any, at: tuple[float, float] | None) -> Move:
    """The move that crops an image."""
    down, across = size[0] - step.height, size[1] - step.width
    if down < 0 or across < 0:
        raise _too_small(size, step)
    top, left = down // 2, across // 2
    if at is not None:
        top, left = min(int(at[0] * (down + 1)), down), min(int(at[1] * (across + 1)), across)
    return Move(size, (top, left, step.height, step.width), (step.height, step.width))


decode_image, resize, center_crop, convert_colour = DecodeImage, Resize, CenterCrop, ConvertColour
