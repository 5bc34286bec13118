"""Random changes to images, different for each record and epoch. Colours are 0 to 255, or 0 to 65535 for uint16."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel._native import Change
from bushel.data.columns import Column
from bushel.data.samples import Sample
from bushel.errors import MissingName, SchemaMismatch
from bushel.pixels.codecs import Move, as_pixels, full_of, resize_pixels
from bushel.transforms.canvas import Canvas
from bushel.transforms.image import cut_canvas, cut_sample, follow_rotation, moved_sample
from bushel.transforms.interface import EVERY_ENGINE, DeclaredTransform, Draw, Draws, Engine, image_of

_GREY = np.array([0.299, 0.587, 0.114], np.float32)
_TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]], np.float32)


class RandomFlip(DeclaredTransform, msgspec.Struct, frozen=True, tag="random_flip"):
    """Flip images left to right half of the time; with `vertical`, also upside down half of the time."""

    engines: ClassVar[tuple[Engine, ...]] = EVERY_ENGINE
    feature: str
    vertical: bool = False
    masks: tuple[str, ...] = ()

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Flip the image, or not; boxes and masks follow."""
        image = image_of(sample, self.feature)
        across, down = draw.uniforms(2)
        flips = (self.vertical and down < 0.5, across < 0.5)
        if not any(flips):
            return sample
        size = image.shape[:2]
        move = Move(size, (0, 0, *size), size, flips=flips)
        image = image[:: -1 if flips[0] else 1, :: -1 if flips[1] else 1]
        return moved_sample(sample, self, move, image)

    def paint(self, canvas: Canvas, draws: Draws) -> bool:
        """Flip images of a batch."""
        across, down = draws.uniforms(2).T < 0.5
        return canvas.flip(down & self.vertical, across)


class RandomCrop(DeclaredTransform, msgspec.Struct, frozen=True, tag="random_crop"):
    """A random part of the image of this size."""

    engines: ClassVar[tuple[Engine, ...]] = EVERY_ENGINE
    feature: str
    height: int
    width: int
    masks: tuple[str, ...] = ()

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Crop the image; boxes and masks follow."""
        down, across = draw.uniforms(2)
        return cut_sample(sample, self, (down, across))

    def paint(self, canvas: Canvas, draws: Draws) -> bool:
        """Crop all images of a batch."""
        places = draws.uniforms(2)
        return cut_canvas(canvas, self, lambda room: np.minimum((places * (room + 1)).astype(np.int64), room))


class RandomShift(DeclaredTransform, msgspec.Struct, frozen=True, tag="random_shift"):
    """Move the image by up to this share of its sides; what is at its edge fills the gap."""

    engines: ClassVar[tuple[Engine, ...]] = ("sample", "core", "tensorflow")
    feature: str
    share: float = 0.125
    masks: tuple[str, ...] = ()

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Move the image; boxes and masks follow."""
        image = image_of(sample, self.feature)
        size = image.shape[:2]
        top, left = self._corners(np.array(draw.uniforms(2)), np.array(size)).tolist()
        rows, columns = (np.clip(np.arange(side) + by, 0, side - 1) for side, by in zip(size, (top, left), strict=True))
        return moved_sample(sample, self, Move(size, (top, left, *size), size), image[rows[:, None], columns])

    def paint(self, canvas: Canvas, draws: Draws) -> bool:
        """Move all images of a batch."""
        return canvas.is_open and canvas.change(Change.SHIFT, self._corners(draws.uniforms(2), canvas.sizes))

    def _corners(self, places: NDArray[np.float64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows and columns that come to the upper left corner."""
        rooms = np.rint(self.share * sizes).astype(np.int64)
        return np.asarray((places * (2 * rooms + 1)).astype(np.int64) - rooms)


class RandomResizedCrop(DeclaredTransform, msgspec.Struct, frozen=True, tag="random_resized_crop"):
    """A part of random size and aspect ratio, resized: the usual augmentation for ImageNet."""

    engines: ClassVar[tuple[Engine, ...]] = EVERY_ENGINE
    feature: str
    height: int
    width: int
    area: tuple[float, float] = (0.08, 1.0)  # of the image
    ratio: tuple[float, float] = (3 / 4, 4 / 3)  # width to height
    masks: tuple[str, ...] = ()

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Crop the image and resize the part."""
        image = image_of(sample, self.feature)
        size, shape, down, across = draw.uniforms(4)
        area = image.shape[0] * image.shape[1] * (self.area[0] + size * (self.area[1] - self.area[0]))
        low, high = (math.log(side) for side in self.ratio)
        ratio = math.exp(low + shape * (high - low))
        width = min(max(1, round(math.sqrt(area * ratio))), image.shape[1])
        height = min(max(1, round(math.sqrt(area / ratio))), image.shape[0])
        top, left = int(down * (image.shape[0] - height + 1)), int(across * (image.shape[1] - width + 1))
        move = Move(image.shape[:2], (top, left, height, width), (self.height, self.width))
        part = image[top : top + height, left : left + width]
        return moved_sample(sample, self, move, resize_pixels(part, self.height, self.width, image.dtype))

    def paint(self, canvas: Canvas, draws: Draws) -> bool:
        """Crop and resize all images of a batch."""
        if not canvas.is_open:
            return False
        share, shape, *places = draws.uniforms(4).T
        areas = canvas.sizes.prod(axis=1) * (self.area[0] + share * (self.area[1] - self.area[0]))
        low, high = (math.log(side) for side in self.ratio)
        ratios = np.array([math.exp(low + value * (high - low)) for value in shape.tolist()])
        sides = np.sqrt(np.stack([areas / ratios, areas * ratios], axis=1))
        parts = np.minimum(np.maximum(np.rint(sides), 1).astype(np.int64), canvas.sizes)
        corners = (np.stack(places, axis=1) * (canvas.sizes - parts + 1)).astype(np.int64)
        sizes = np.full_like(parts, (self.height, self.width))
        return canvas.resize(sizes, part=np.concatenate([corners, parts], axis=1))


class Brightness(DeclaredTransform, msgspec.Struct, frozen=True, tag="brightness"):
    """Lighter or darker by up to this share of the full range."""

    engines: ClassVar[tuple[Engine, ...]] = EVERY_ENGINE
    feature: str
    most: float = 0.2

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Add to all colours."""
        image = image_of(sample, self.feature)
        changed = image.astype(np.float32) + np.float32(full_of(image.dtype) * draw.between(-self.most, self.most))
        return {**sample, self.feature: _like(changed, image)}

    def paint(self, canvas: Canvas, draws: Draws) -> bool:
        """Add to the colours of all images of a batch."""
        return canvas.change(Change.BRIGHTNESS, full_of(np.dtype(np.uint8)) * draws.between(-self.most, self.most))


class Contrast(DeclaredTransform, msgspec.Struct, frozen=True, tag="contrast"):
    """Move colours away from or towards the mean of their channel, by a factor from 1 - most to 1 + most."""

    engines: ClassVar[tuple[Engine, ...]] = EVERY_ENGINE
    feature: str
    most: float = 0.2

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Spread the colours."""
        image = image_of(sample, self.feature)
        mean = image.mean(axis=(0, 1), dtype=np.float32)
        factor = np.float32(draw.between(1 - self.most, 1 + self.most))
        return {**sample, self.feature: _like((image - mean) * factor + mean, image)}

    def paint(self, canvas: Canvas, draws: Draws) -> bool:
        """Spread the colours of all images of a batch."""
        return canvas.change(Change.CONTRAST, draws.between(1 - self.most, 1 + self.most))


class Saturation(DeclaredTransform, msgspec.Struct, frozen=True, tag="saturation"):
    """Move colours away from or towards grey, by a factor from 1 - most to 1 + most."""

    engines: ClassVar[tuple[Engine, ...]] = EVERY_ENGINE
    feature: str
    most: float = 0.2

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Strengthen the colours."""
        image = _coloured(sample, self.feature)
        grey = (image @ _GREY)[..., None]
        factor = np.float32(draw.between(1 - self.most, 1 + self.most))
        return {**sample, self.feature: _like((image - grey) * factor + grey, image)}

    def paint(self, canvas: Canvas, draws: Draws) -> bool:
        """Strengthen the colours of all images of a batch."""
        return canvas.is_coloured and canvas.change(Change.SATURATION, draws.between(1 - self.most, 1 + self.most))


class Hue(DeclaredTransform, msgspec.Struct, frozen=True, tag="hue"):
    """Rotate colours by up to this share of the colour wheel, keeping lightness (Y of YIQ)."""

    engines: ClassVar[tuple[Engine, ...]] = EVERY_ENGINE
    feature: str
    most: float = 0.05

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Turn the colours."""
        image = _coloured(sample, self.feature)
        matrix = _turn_of_colours(draw.between(-self.most, self.most))
        return {**sample, self.feature: _like(image @ matrix.T.astype(np.float32), image)}

    def paint(self, canvas: Canvas, draws: Draws) -> bool:
        """Turn the colours of all images of a batch."""
        if not canvas.is_coloured:
            return False
        shares = draws.between(-self.most, self.most).tolist()
        return canvas.change(Change.HUE, np.array([_turn_of_colours(share) for share in shares]))


def _turn_of_colours(share: float) -> NDArray[Any]:
    """The matrix that rotates colours by a share of the wheel."""
    angle = 2 * math.pi * share
    cosine, sine = math.cos(angle), math.sin(angle)
    turn = np.array([[1, 0, 0], [0, cosine, -sine], [0, sine, cosine]], np.float32)
    return np.asarray(np.linalg.inv(_TO_YIQ) @ turn @ _TO_YIQ)


class Rotate(DeclaredTransform, msgspec.Struct, frozen=True, tag="rotate"):
    """Rotate the image about its centre by up to this many degrees; `fill` comes in from outside."""

    engines: ClassVar[tuple[Engine, ...]] = ("sample", "core")
    feature: str
    most: float = 15.0
    fill: int = 0
    masks: tuple[str, ...] = ()

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Turn the image."""
        image = image_of(sample, self.feature)
        angle = draw.between(-self.most, self.most)
        if image.dtype == np.uint8:
            turned = _turned(image[..., 0] if image.shape[2] == 1 else image, angle, self.fill)
        else:  # Pillow has no other type of pixels with several channels
            channels = np.moveaxis(image.astype(np.float32), 2, 0)
            turned = np.stack([_turned(channel, angle, self.fill) for channel in channels], axis=2)
        changed = follow_rotation(sample, self.feature, angle, image.shape[:2], self.masks)
        return {**sample, **changed, self.feature: as_pixels(turned, image.dtype).reshape(image.shape)}

    def paint(self, canvas: Canvas, draws: Draws) -> bool:
        """Turn all images of a batch."""
        angles = draws.between(-self.most, self.most)
        return canvas.change(Change.ROTATE, np.stack([angles, np.full_like(angles, self.fill)], axis=1))


def _turned(pixels: NDArray[Any], angle: float, fill: int) -> NDArray[Any]:
    from PIL import Image

    colour = fill if pixels.ndim == 2 else (fill,) * pixels.shape[2]
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    return np.array(picture.rotate(angle, Image.Resampling.BILINEAR, fillcolor=colour))


class Cutout(DeclaredTransform, msgspec.Struct, frozen=True, tag="cutout"):
    """Fill a random square with sides of this length with `fill`."""

    engines: ClassVar[tuple[Engine, ...]] = ("sample", "core", "tensorflow")
    feature: str
    size: int
    fill: float = 0

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Blank a square."""
        image = image_of(sample, self.feature).copy()
        middle_y, middle_x = (int(u * side) for u, side in zip(draw.uniforms(2), image.shape[:2], strict=True))
        top, left = max(0, middle_y - self.size // 2), max(0, middle_x - self.size // 2)
        bottom, right = middle_y + (self.size + 1) // 2, middle_x + (self.size + 1) // 2
        image[top:bottom, left:right] = self.fill
        return {**sample, self.feature: image}

    def paint(self, canvas: Canvas, draws: Draws) -> bool:
        """Blank a square of each image of a batch."""
        if not canvas.is_open:
            return False
        middles = (draws.uniforms(2) * canvas.sizes).astype(np.int64)
        first, last = np.maximum(0, middles - self.size // 2), middles + (self.size + 1) // 2
        fill = np.full((len(middles), 1), int(self.fill) if canvas.dtype == np.uint8 else self.fill)
        return canvas.change(Change.CUTOUT, np.concatenate([first, last, fill], axis=1))


class Noise(DeclaredTransform, msgspec.Struct, frozen=True, tag="noise"):
    """Add normal noise to every colour; the standard deviation is a share of the full range."""

    feature: str
    std: float = 0.02

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Add noise."""
        image = image_of(sample, self.feature)
        noise = draw.generator().normal(0, full_of(image.dtype) * self.std, image.shape).astype(np.float32)
        return {**sample, self.feature: _like(image.astype(np.float32) + noise, image)}


def _coloured(sample: Sample, feature: str) -> NDArray[Any]:
    image = image_of(sample, feature)
    if image.shape[2] != 3:
        raise SchemaMismatch(f"expected 3 channels, got {image.shape[2]}", at=feature)
    return image


def _like(changed: NDArray[Any], image: NDArray[Any]) -> NDArray[Any]:
    """Back to the range and the dtype of the image."""
    return as_pixels(np.clip(changed, 0, full_of(image.dtype)), image.dtype)


random_flip, random_crop, random_resized_crop = RandomFlip, RandomCrop, RandomResizedCrop
random_shift = RandomShift
brightness, contrast, saturation, hue, rotate, cutout = Brightness, Contrast, Saturation, Hue, Rotate, Cutout
noise = Noise


class Mixup(DeclaredTransform, msgspec.Struct, frozen=True, tag="mixup"):
    """Blend each row with another; labels become shares of `classes`."""

    feature: str
    label: str
    classes: int
    alpha: float = 0.2

    @property
    def touches(self) -> tuple[str, ...]:
        """The images and their labels."""
        return (self.feature, self.label)

    def apply_batch(self, columns: dict[str, Column], draw: Draw) -> dict[str, Column]:
        """Blend the rows of a batch."""
        values = _dense(columns, self.feature)
        partner, share = _partners(len(values), self.alpha, draw)
        if values.ndim > 1 and values.dtype.name in ("uint8", "float32"):
            mixed = np.empty(values.shape, np.float32)
            _native.mix_images(np.require(values, requirements=["C", "W"]), partner, share, mixed)
        else:
            blend = share.astype(np.float32).reshape(-1, *[1] * (values.ndim - 1))
            mixed = values * blend + values[partner] * (1 - blend)
        return {**columns, self.feature: mixed, self.label: _blend_labels(columns, self, partner, share)}


class Cutmix(DeclaredTransform, msgspec.Struct, frozen=True, tag="cutmix"):
    """Paste a rectangle of another image into each; labels become shares of `classes` by area."""

    feature: str
    label: str
    classes: int
    alpha: float = 1.0

    @property
    def touches(self) -> tuple[str, ...]:
        """The images and their labels."""
        return (self.feature, self.label)

    def apply_batch(self, columns: dict[str, Column], draw: Draw) -> dict[str, Column]:
        """Paste parts of the rows of a batch into each other."""
        images = _dense(columns, self.feature)
        partner, share = _partners(len(images), self.alpha, draw)
        if images.ndim not in (3, 4):
            shape = list(images.shape[1:])
            raise SchemaMismatch(f"expected images (height, width, channels), got {shape}", at=self.feature)
        places = draw.generator(salt=1).random((len(images), 2))
        whole = np.array(images.shape[1:3])
        sizes = (whole * np.sqrt(1 - share)[:, None]).astype(np.int64)
        boxes = np.concatenate([(places * (whole - sizes + 1)).astype(np.int64), sizes], axis=1)
        given, mixed = np.require(images, requirements=["C", "W"]), np.empty(images.shape, images.dtype)
        if images.ndim == 3:
            given, mixed = given[..., None], mixed[..., None]
        _native.paste_images(given, partner, boxes, mixed)
        share = 1 - sizes.prod(axis=1) / whole.prod()
        labels = _blend_labels(columns, self, partner, share)
        return {**columns, self.feature: mixed.reshape(images.shape), self.label: labels}


def _partners(rows: int, alpha: float, draw: Draw) -> tuple[NDArray[Any], NDArray[np.float64]]:
    generator = draw.generator()
    return generator.permutation(rows), generator.beta(alpha, alpha, rows)


def _dense(columns: dict[str, Column], name: str) -> NDArray[Any]:
    if name not in columns:
        raise MissingName("column", name, columns, where="transform")
    column = columns[name]
    if not isinstance(column, np.ndarray):
        raise SchemaMismatch("rows of different shapes cannot be mixed", at=name)
    return column


def _blend_labels(
    columns: dict[str, Column], step: Any, partner: NDArray[Any], share: NDArray[np.float64]
) -> NDArray[np.float32]:
    labels = _dense(columns, step.label)
    if labels.ndim == 1:
        if labels.size and not 0 <= labels.min() <= labels.max() < step.classes:
            raise SchemaMismatch(f"labels must be at least 0 and below {step.classes}", at=step.label)
        labels = np.eye(step.classes, dtype=np.float32)[labels]
    blend = share.astype(np.float32)[:, None]
    return np.asarray(labels * blend + labels[partner] * (1 - blend), np.float32)


mixup, cutmix = Mixup, Cutmix
