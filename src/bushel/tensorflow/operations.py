"""Transforms as TensorFlow's ops: the same arithmetic, for the engine that does without bushel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from bushel.data.schema import Schema
from bushel.errors import SchemaMismatch
from bushel.tensorflow.specs import load
from bushel.tensorflow.strings import STRING_OPS
from bushel.transforms import (
    brightness,
    cast,
    center_crop,
    contrast,
    cutout,
    decode_image,
    hue,
    jitter,
    normalise,
    random_crop,
    random_flip,
    random_resized_crop,
    resize,
    saturation,
    scale,
    window,
)

__all__ = ["PIXEL_OPS", "decode", "is_by_row", "is_random", "transform_batch", "transform_row"]


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


Operation: TypeAlias = Callable[[Any, Any, Any], Any]  # transform, one sample's value, a few numbers of 0 to 1

_UNIFORMS = 4  # that a transform may draw for one sample


def transform_batch(
    transforms: Sequence[Any], schema: Schema, specs: dict[str, Any]
) -> Callable[[dict[str, Any], Any], dict[str, Any]]:
    """A function that applies all transforms to a parsed batch; `seed` says what is drawn for it.

    Each transform changes one feature, so the chain of each feature is applied on its own.
    """
    chains = chains_of(transforms)

    def apply(columns: dict[str, Any], seed: Any) -> dict[str, Any]:
        for number, (source, target, chain) in enumerate(chains):
            change = _make_chain(chain, schema, source)
            columns = {**columns, target: change(columns[source], specs.get(target), (seed[0], seed[1] + number))}
        return columns

    return apply


def transform_row(transforms: Sequence[Any], schema: Schema) -> Callable[[dict[str, Any], Any], dict[str, Any]]:
    """A function that applies all transforms to one parsed row."""
    chains = chains_of(transforms)

    def apply(row: dict[str, Any], seed: Any) -> dict[str, Any]:
        tf = load()
        for number, (source, target, chain) in enumerate(chains):
            drawn = tf.random.stateless_uniform([len(chain), _UNIFORMS], tf.stack([seed[0], seed[1] + number]))
            encoding = schema[source].encoding if source in schema else "list"
            row = {**row, target: _apply_chain(chain, row[source], drawn, encoding)}
        return row

    return apply


class Chain(NamedTuple):
    """Transforms that run one after the other on one feature, and what they make of it."""

    source: str
    target: str
    steps: list[Any]


def chains_of(transforms: Sequence[Any]) -> list[Chain]:
    """The transforms of each feature; refuses those that there are no ops for."""
    chains: list[Chain] = []
    for step in transforms:
        if not (type(step) is decode_image or type(step) in _OPERATIONS):
            raise ValueError(f'engine must be "native" for {type(step).__name__}: there are no TensorFlow ops for it')
        target = getattr(step, "out", None) or step.feature
        last = next((chain for chain in reversed(chains) if step.feature in (chain.source, chain.target)), None)
        if last is not None and last.source == last.target == step.feature == target:
            last.steps.append(step)
        else:
            chains.append(Chain(step.feature, target, [step]))
    return chains


def is_by_row(transforms: Sequence[Any]) -> bool:
    """Whether any changes one row at a time, as decoding must: rows may have any size until they are resized."""
    return any(type(step) not in _ELEMENTWISE for step in transforms)


def is_random(transforms: Sequence[Any]) -> bool:
    """Whether any of them draws."""
    return any(type(step) not in _FIXED for step in transforms)


def _make_chain(chain: list[Any], schema: Schema, name: str) -> Callable[[Any, Any, Any], Any]:
    if all(type(step) in _ELEMENTWISE for step in chain):
        return lambda value, _, __: _map_values(chain, value)

    def change(value: Any, spec: Any, seed: Any) -> Any:
        """Each row on its own, because decoded rows may have any size until they are resized."""
        tf = load()
        rows = value.nrows() if isinstance(value, tf.RaggedTensor) else tf.shape(value)[0]
        drawn = tf.random.stateless_uniform([rows, len(chain), _UNIFORMS], tf.stack(seed))

        def one(row: tuple[Any, Any]) -> Any:
            return _apply_chain(chain, *row, schema[name].encoding)

        shape = spec.shape[1:]
        if isinstance(spec, tf.RaggedTensorSpec):
            row_spec = tf.RaggedTensorSpec(shape, spec.dtype, spec.ragged_rank - 1, tf.int64)
        else:
            row_spec = tf.TensorSpec(shape, spec.dtype)
        return tf.map_fn(lambda row: tf.cast(one(row), spec.dtype), (value, drawn), fn_output_signature=row_spec)

    return change


def _apply_chain(chain: list[Any], value: Any, uniforms: Any, encoding: str) -> Any:
    for number, step in enumerate(chain):
        if type(step) is decode_image:
            value = decode(step, value, encoding)
        else:
            value = _OPERATIONS[type(step)](step, value, uniforms[number])
    return value


def _map_values(chain: list[Any], value: Any) -> Any:
    tf = load()
    if isinstance(value, tf.RaggedTensor):
        return value.with_flat_values(_map_values(chain, value.flat_values))
    for step in chain:
        value = _OPERATIONS[type(step)](step, value, None)
    return value


def _cast(step: Any, value: Any, _: Any) -> Any:
    return load().cast(value, step.dtype)


def _normalise(step: Any, value: Any, _: Any) -> Any:
    tf = load()
    mean, std = tf.constant(step.mean, tf.float32), tf.constant(step.std, tf.float32)
    return (tf.cast(value, tf.float32) - mean) / std


def _scale(step: Any, value: Any, uniforms: Any) -> Any:
    tf = load()
    return tf.cast(value, tf.float32) * (1 - step.most + 2 * step.most * uniforms[0])


def _jitter(step: Any, value: Any, uniforms: Any) -> Any:
    tf = load()
    seed = tf.cast(uniforms[:2] * 2.0**31, tf.int64)
    noise = tf.random.stateless_normal(tf.shape(value), seed, stddev=step.std)
    return tf.cast(value, tf.float32) + noise


def _window(step: Any, value: Any, uniforms: Any) -> Any:
    tf = load()
    room = tf.shape(value)[0] - step.length
    message = f"{step.feature}: the series has fewer than {step.length} steps"
    with tf.control_dependencies([tf.debugging.assert_non_negative(room, message)]):
        at = uniforms[0] if step.random else 0.5
        start = tf.minimum(tf.cast(at * tf.cast(room + 1, tf.float32), tf.int32), room)
    return value[start : start + step.length]


_ELEMENTWISE: dict[type, Operation] = {cast: _cast, normalise: _normalise, **STRING_OPS}
_FIXED = (*_ELEMENTWISE, decode_image, resize, center_crop)  # draw nothing
_OPERATIONS: dict[type, Operation] = {
    **_ELEMENTWISE,
    **PIXEL_OPS,
    scale: _scale,
    jitter: _jitter,
    window: _window,
}
