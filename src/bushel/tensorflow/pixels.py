"""Images in TensorFlow's ops: one image at a time, height x width x channels, colours 0 to 255 whatever the dtype."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bushel.errors import SchemaMismatch
from bushel.tensorflow.framework import load
from bushel.transforms import (
    brightness,
    center_crop,
    contrast,
    cutout,
    hue,
    random_crop,
    random_flip,
    random_resized_crop,
    resize,
    saturation,
)

__all__ = ["PIXEL_OPS", "decode"]

_GREY = np.array([0.299, 0.587, 0.114], np.float32)
_TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]], np.float32)


def decode(step: Any, data: Any, encoding: str) -> Any:
    """Encoded bytes to pixels, by the accurate kernel that the native engine has too."""
    tf = load()
    if step.at_least is not None:
        raise ValueError('engine must be "native" for decode_image(at_least=...): TensorFlow decodes at one scale')
    if step.dtype != "uint8":
        raise ValueError('engine must be "native" for decode_image(dtype="uint16"): TensorFlow\'s ops here give 8 bits')
    if encoding in ("webp", "tiff"):
        raise SchemaMismatch(f'TensorFlow\'s own ops cannot decode {encoding}; engine="native" can', at=step.feature)
    if encoding == "bmp":
        return tf.io.decode_image(data, step.channels, expand_animations=False)
    if step.channels == 4:
        return tf.io.decode_png(data, 4)
    return tf.io.decode_jpeg(data, step.channels, dct_method="INTEGER_ACCURATE")  # reads PNG and GIF too


def _resize(step: Any, image: Any, _: Any) -> Any:
    if (step.fit, step.kernel) != ("stretch", "bilinear"):
        raise ValueError(f'engine must be "native" for resize(fit={step.fit!r}, kernel={step.kernel!r})')
    out = _to_size(image, step, antialias=step.antialias)
    return _as_dtype(out, step.dtype or image.dtype)


def _to_size(image: Any, step: Any, *, antialias: bool = False) -> Any:
    """The kernel for floats gives the same bits as that for bytes, in two thirds of the time."""
    tf = load()
    return tf.image.resize(tf.cast(image, tf.float32), [step.height, step.width], antialias=antialias)


def _as_dtype(image: Any, dtype: Any) -> Any:
    tf = load()
    if tf.dtypes.as_dtype(dtype) == tf.uint8:
        return tf.cast(tf.clip_by_value(tf.round(image), 0, 255), tf.uint8)
    return tf.cast(image, dtype)


def _like(changed: Any, image: Any) -> Any:
    return _as_dtype(load().clip_by_value(changed, 0, 255), image.dtype)


def _crop(step: Any, image: Any, at: tuple[Any, Any] | None) -> Any:
    """Cut out a part; 0 to 1 down and across say where in the room that is left; None: in its middle."""
    tf = load()
    size = tf.constant([step.height, step.width])
    room = tf.shape(image)[:2] - size
    message = f"{step.feature}: an image is smaller than the crop of {step.height} x {step.width}"
    with tf.control_dependencies([tf.debugging.assert_non_negative(room, message)]):
        top_left = room // 2
        if at is not None:
            top_left = tf.minimum(tf.cast(tf.stack(at) * tf.cast(room + 1, tf.float32), tf.int32), room)
    return image[top_left[0] : top_left[0] + step.height, top_left[1] : top_left[1] + step.width]


def _center_crop(step: Any, image: Any, _: Any) -> Any:
    return _crop(step, image, None)


def _random_crop(step: Any, image: Any, uniforms: Any) -> Any:
    return _crop(step, image, (uniforms[0], uniforms[1]))


def _random_flip(step: Any, image: Any, uniforms: Any) -> Any:
    tf = load()
    image = tf.cond(uniforms[0] < 0.5, lambda: image[:, ::-1], lambda: image)
    if step.vertical:
        image = tf.cond(uniforms[1] < 0.5, lambda: image[::-1], lambda: image)
    return image


def _random_resized_crop(step: Any, image: Any, uniforms: Any) -> Any:
    tf = load()
    size = tf.cast(tf.shape(image)[:2], tf.float32)
    area = size[0] * size[1] * (step.area[0] + uniforms[0] * (step.area[1] - step.area[0]))
    low, high = (math.log(side) for side in step.ratio)
    ratio = tf.exp(low + uniforms[1] * (high - low))
    sides = tf.round(tf.sqrt(tf.stack([area / ratio, area * ratio])))
    sides = tf.clip_by_value(sides, 1.0, size)
    begin = tf.floor(uniforms[2:4] * (size - sides + 1))
    part = tf.slice(image, tf.cast([begin[0], begin[1], 0], tf.int32), tf.cast([sides[0], sides[1], -1], tf.int32))
    return _as_dtype(_to_size(part, step), image.dtype)


def _brightness(step: Any, image: Any, uniforms: Any) -> Any:
    tf = load()
    return _like(tf.cast(image, tf.float32) + 255 * _between(-step.most, step.most, uniforms), image)


def _contrast(step: Any, image: Any, uniforms: Any) -> Any:
    tf = load()
    floats = tf.cast(image, tf.float32)
    mean = tf.reduce_mean(floats, axis=[0, 1])
    return _like((floats - mean) * _between(1 - step.most, 1 + step.most, uniforms) + mean, image)


def _saturation(step: Any, image: Any, uniforms: Any) -> Any:
    tf = load()
    floats = tf.cast(image, tf.float32)
    grey = tf.tensordot(floats, tf.constant(_GREY), 1)[..., None]
    return _like((floats - grey) * _between(1 - step.most, 1 + step.most, uniforms) + grey, image)


def _hue(step: Any, image: Any, uniforms: Any) -> Any:
    tf = load()
    angle = 2 * math.pi * _between(-step.most, step.most, uniforms)
    cosine, sine = tf.cos(angle), tf.sin(angle)
    turn = tf.stack([[1.0, 0.0, 0.0], [0.0, cosine, -sine], [0.0, sine, cosine]])
    matrix = tf.constant(np.linalg.inv(_TO_YIQ), tf.float32) @ turn @ tf.constant(_TO_YIQ)
    return _like(tf.tensordot(tf.cast(image, tf.float32), matrix, [[2], [1]]), image)


def _cutout(step: Any, image: Any, uniforms: Any) -> Any:
    tf = load()
    inside = []
    for axis in (0, 1):
        side = tf.shape(image)[axis]
        middle = tf.cast(uniforms[axis] * tf.cast(side, tf.float32), tf.int32)
        places = tf.range(side)
        inside.append((places >= middle - step.size // 2) & (places < middle + (step.size + 1) // 2))
    square = inside[0][:, None, None] & inside[1][None, :, None]
    return tf.where(square, tf.cast(step.fill, image.dtype), image)


def _between(low: float, high: float, uniforms: Any) -> Any:
    return low + (high - low) * uniforms[0]


PIXEL_OPS: dict[type, Callable[[Any, Any, Any], Any]] = {
    resize: _resize,
    center_crop: _center_crop,
    random_crop: _random_crop,
    random_flip: _random_flip,
    random_resized_crop: _random_resized_crop,
    brightness: _brightness,
    contrast: _contrast,
    saturation: _saturation,
    hue: _hue,
    cutout: _cutout,
}
