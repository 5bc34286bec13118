"""Transforms as TensorFlow's ops: the same arithmetic, for the engine that does not need bushel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from bushel import _native
from bushel.data.schema import Schema
from bushel.errors import SchemaMismatch, missing_package
from bushel.tensorflow.tensors import load_tensorflow
from bushel.transforms import (
    Transform,
    brightness,
    cast,
    center_crop,
    clean,
    contrast,
    cutout,
    decode_image,
    encode,
    hue,
    jitter,
    normalise,
    one_hot,
    random_crop,
    random_flip,
    random_resized_crop,
    random_shift,
    resize,
    saturation,
    scale,
    tokenise,
    window,
)
from bushel.transforms.interface import declared
from bushel.transforms.texts import Clean, Tokenise

__all__ = [
    "PIXEL_OPS",
    "STRING_OPS",
    "clean_texts",
    "decode",
    "is_by_row",
    "is_random",
    "keras_objects",
    "split_texts",
    "text_vectorization",
    "transform_batch",
    "transform_row",
]


_BUCKETS = (1 << 63) - 1  # bits of a hash
# What `transforms.texts` removes, in RE2 syntax.
_CONTROL = r"[\x00-\x08\x0e-\x1b\x7f\x{80}-\x{84}\x{86}-\x{9f}]"


def clean_texts(texts: Any, *, lower: bool, strip_control: bool) -> Any:
    """The part of cleaning for which there are ops."""
    tf = load_tensorflow()
    if strip_control:
        texts = tf.strings.regex_replace(texts, _CONTROL, "")
    if not lower:
        return texts
    # tf.strings.lower ends a text at its first NUL; this stands in for it, and is in no text.
    held = tf.strings.regex_replace(texts, r"\x00", "\ufdd0")
    return tf.strings.regex_replace(tf.strings.lower(held, encoding="utf-8"), "\ufdd0", "\x00")


def split_texts(texts: Any, unit: str) -> Any:
    """The tokens of a vector of texts, ragged."""
    tf = load_tensorflow()
    if unit == "byte":
        return tf.strings.bytes_split(texts)
    if unit == "character":
        return tf.strings.unicode_split(texts, "UTF-8")
    return tf.strings.split(between_spaces(texts, unit))


def between_spaces(texts: Any, unit: str) -> Any:
    """Texts with one space wherever a token ends."""
    return load_tensorflow().strings.regex_replace(texts, _gaps(unit), " ")


@lru_cache
def _gaps(unit: str) -> str:
    """What separates tokens, in RE2 syntax: characters by number, so that its Unicode version does not matter."""
    ranges = _native.word_ranges() if unit == "word" else _native.space_ranges()
    body = "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in ranges)
    return f"[{'^' if unit == 'word' else ''}{body}]+"


class Table:
    """Finds the place of texts in a list, with ops only: a table of TensorFlow's could not be serialised."""

    def __init__(self, names: Sequence[str]) -> None:
        tf = load_tensorflow()
        with tf.init_scope():
            hashes = tf.strings.to_hash_bucket_fast(tf.constant(list(names), tf.string), _BUCKETS).numpy()
        order = np.argsort(hashes, kind="stable")
        self._hashes, self._order = hashes[order], order
        self._names = [names[place] for place in order.tolist()]
        if (np.diff(self._hashes) == 0).any():
            raise ValueError("vocabulary must not hold two texts of the same 63-bit hash")

    def places(self, texts: Any) -> Any:
        """The place of each text of a vector; the number of names if it is not one of them."""
        tf = load_tensorflow()
        count = len(self._names)
        if not count:
            return tf.zeros_like(texts, tf.int64)
        hashes = tf.strings.to_hash_bucket_fast(texts, _BUCKETS)
        at = tf.minimum(tf.searchsorted(tf.constant(self._hashes), hashes), count - 1)
        is_known = tf.gather(tf.constant(self._names, tf.string), at) == texts
        return tf.where(is_known, tf.gather(tf.constant(self._order), at), np.int64(count))


@lru_cache(maxsize=8)
def _table_of(names: tuple[str, ...]) -> Table:
    return Table(names)


def _whole_batches(change: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """An operation on a vector, for one value too."""

    def operation(step: Any, value: Any, _: Any) -> Any:
        if value.shape.rank == 0:
            return change(step, value[None])[0]
        return change(step, value)

    return operation


def _clean(step: Any, texts: Any, _: Any) -> Any:
    if step.form != "none" or step.strip_accents:
        asked = f"form={step.form!r}" if step.form != "none" else "strip_accents=True"
        raise ValueError(f'engine must be "native" for clean({asked}): TensorFlow has no ops for Unicode forms')
    return clean_texts(texts, lower=step.lower, strip_control=step.strip_control)


def _tokenise(step: Any, texts: Any) -> Any:
    tf = load_tensorflow()
    tokens = split_texts(texts, step.unit)
    if step.unit == "byte":
        flat = tf.cast(tf.io.decode_raw(tokens.values, tf.uint8), tf.int64)[:, 0] + 2
    else:
        known = step.vocabulary.tokens
        places = _table_of(known).places(tokens.values)
        flat = tf.where(places == len(known), np.int64(1), places + 2)
    ids = tf.RaggedTensor.from_row_splits(flat, tf.cast(tokens.row_splits, tf.int64), validate=False)
    if step.length is None:
        return ids
    return ids[:, : step.length].to_tensor(np.int64(0), shape=[None, step.length])


def _codes(step: Any, values: Any) -> Any:
    """The code of each category; the number of classes if it is not one."""
    tf = load_tensorflow()
    names, count = step.names, len(step.names)
    if values.dtype == tf.string:
        codes = _table_of(tuple(str(name) for name in names)).places(values)
    else:
        order = np.argsort(np.array(names, np.int64))
        ordered = tf.constant(np.array(names, np.int64)[order])
        values = tf.cast(values, tf.int64)
        at = tf.minimum(tf.searchsorted(ordered, values), count - 1)
        codes = tf.where(tf.gather(ordered, at) == values, tf.gather(tf.constant(order), at), np.int64(count))
    if step.unknown != "refuse":
        return codes
    message = f"{step.feature}: a value is not a class of the train split"
    with tf.control_dependencies([tf.debugging.assert_less(codes, np.int64(count), message)]):
        return tf.identity(codes)


def _one_hot(step: Any, values: Any) -> Any:
    return load_tensorflow().one_hot(_codes(step, values), len(step.names), dtype="int64")


STRING_OPS: dict[type, Callable[[Any, Any, Any], Any]] = {
    clean: _clean,
    tokenise: _whole_batches(_tokenise),
    encode: _whole_batches(_codes),
    one_hot: _whole_batches(_one_hot),
}


def text_vectorization(transforms: Transform | Sequence[Transform], feature: str = "text") -> Any:
    """The `keras.layers.TextVectorization` with the ids of `tokenise`, which cleans text like `clean` before it.

    `transforms` are those of a dataset, or a single one. A model that holds the layer is loaded with
    `keras.models.load_model(path, custom_objects=bushel.tensorflow.keras_objects())`.

    >>> layer = text_vectorization(bushel.open("data").transforms())
    """
    keras = _keras()
    given = list(transforms) if isinstance(transforms, Sequence) else [transforms]
    cleaning, tokens = _of_feature(given, feature)
    if tokens.unit == "byte":
        raise ValueError("unit must be one of word, whitespace, character for a Keras layer; got 'byte'")
    if any(token.endswith("\0") for token in tokens.vocabulary.tokens):
        raise ValueError("vocabulary must hold no token that ends with NUL for a Keras layer; clean with strip_control")
    lower = cleaning is not None and cleaning.lower
    strip_control = cleaning is not None and cleaning.strip_control
    is_plain = tokens.unit == "character" and not lower and not strip_control
    standardise = _standardise()(unit=tokens.unit, lower=lower, strip_control=strip_control)
    return keras.layers.TextVectorization(
        standardize=None if is_plain else standardise,
        split="character" if tokens.unit == "character" else "whitespace",
        output_sequence_length=tokens.length,
        ragged=tokens.length is None,
        vocabulary=list(tokens.vocabulary.tokens),
    )


def keras_objects() -> dict[str, Any]:
    """What Keras needs to load a model that holds this layer."""
    return {"bushel>Standardise": _standardise()}


def _of_feature(transforms: list[Any], feature: str) -> tuple[Clean | None, Tokenise]:
    """The steps that clean the feature and split it into tokens."""
    cleaning: Clean | None = None
    for step in transforms:
        if declared(step).feature != feature:
            continue
        if isinstance(step, clean):
            if cleaning is not None or step.form != "none" or step.strip_accents:
                raise ValueError(
                    'transforms must clean once, with form="none" and no strip_accents, for a Keras layer: '
                    f"TensorFlow has no ops for Unicode forms; got {step}"
                )
            cleaning = step
        elif isinstance(step, tokenise):
            return cleaning, step
        elif declared(step).out is None:
            raise ValueError(f"transforms must only clean before they tokenise, for a Keras layer; got {step}")
    raise ValueError(f"transforms must hold a tokenise of {feature!r}, got {transforms}")


def _keras() -> Any:
    try:
        import keras
    except ImportError:
        raise missing_package("Keras", extra="tensorflow", purpose="bushel.tensorflow.text_vectorization") from None
    return keras


@cache
def _standardise() -> Any:
    @_keras().saving.register_keras_serializable(package="bushel")
    class StandardiseText:
        """Texts cleaned, with one space between tokens."""

        def __init__(self, unit: str, lower: bool, strip_control: bool) -> None:
            self.unit, self.lower, self.strip_control = unit, lower, strip_control

        def __call__(self, texts: Any) -> Any:
            texts = load_tensorflow().convert_to_tensor(texts, "string")
            texts = clean_texts(texts, lower=self.lower, strip_control=self.strip_control)
            return texts if self.unit == "character" else between_spaces(texts, self.unit)

        def get_config(self) -> dict[str, Any]:
            return {"unit": self.unit, "lower": self.lower, "strip_control": self.strip_control}

        @classmethod
        def from_config(cls, config: dict[str, Any]) -> StandardiseText:
            return cls(**config)

    return StandardiseText


_GREY = np.array([0.299, 0.587, 0.114], np.float32)
_TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]], np.float32)


def decode(step: Any, data: Any, encoding: str) -> Any:
    """Encoded bytes to pixels, with the accurate kernel, as in the native engine."""
    tf = load_tensorflow()
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
    if encoding == "jpeg":
        return _decode_opaque(step, data)
    if encoding == "png":
        return _decode_on_background(step, data)
    is_png = tf.equal(tf.strings.substr(data, 0, 4), b"\x89PNG")
    return tf.cond(is_png, lambda: _decode_on_background(step, data), lambda: _decode_opaque(step, data))


def _decode_opaque(step: Any, data: Any) -> Any:
    return load_tensorflow().io.decode_jpeg(data, step.channels, dct_method="INTEGER_ACCURATE")  # reads PNG and GIF too


def _decode_on_background(step: Any, data: Any) -> Any:
    """A PNG, whose transparent pixels show the background, in the same integers as the native engine."""
    tf = load_tensorflow()
    image = tf.cast(tf.io.decode_png(data, 4), tf.int32)
    alpha = image[..., 3:]
    colours = (image[..., :3] * alpha + tf.constant(step.background) * (255 - alpha) + 127) // 255
    if step.channels == 3:
        return tf.cast(colours, tf.uint8)
    grey = tf.reduce_sum(colours * tf.constant([19595, 38470, 7471]), axis=2, keepdims=True) + 0x8000
    return tf.cast(tf.bitwise.right_shift(grey, 16), tf.uint8)


def _resize(step: Any, image: Any, _: Any) -> Any:
    if (step.fit, step.kernel) != ("stretch", "bilinear"):
        raise ValueError(f'engine must be "native" for resize(fit={step.fit!r}, kernel={step.kernel!r})')
    out = _to_size(image, step, antialias=step.antialias)
    return _as_dtype(out, step.dtype or image.dtype)


def _to_size(image: Any, step: Any, *, antialias: bool = False) -> Any:
    """The kernel for floats gives the same bits as the one for bytes, in two thirds of the time."""
    tf = load_tensorflow()
    return tf.image.resize(tf.cast(image, tf.float32), [step.height, step.width], antialias=antialias)


def _as_dtype(image: Any, dtype: Any) -> Any:
    tf = load_tensorflow()
    if tf.dtypes.as_dtype(dtype) == tf.uint8:
        return tf.cast(tf.clip_by_value(tf.round(image), 0, 255), tf.uint8)
    return tf.cast(image, dtype)


def _like(changed: Any, image: Any) -> Any:
    return _as_dtype(load_tensorflow().clip_by_value(changed, 0, 255), image.dtype)


def _crop(step: Any, image: Any, at: tuple[Any, Any] | None) -> Any:
    """Crop a part; `down` and `across`, from 0 to 1, are its place in the free space; None: the centre."""
    tf = load_tensorflow()
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
    tf = load_tensorflow()
    image = tf.cond(uniforms[0] < 0.5, lambda: image[:, ::-1], lambda: image)
    if step.vertical:
        image = tf.cond(uniforms[1] < 0.5, lambda: image[::-1], lambda: image)
    return image


def _random_resized_crop(step: Any, image: Any, uniforms: Any) -> Any:
    tf = load_tensorflow()
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
    tf = load_tensorflow()
    return _like(tf.cast(image, tf.float32) + 255 * _between(-step.most, step.most, uniforms), image)


def _contrast(step: Any, image: Any, uniforms: Any) -> Any:
    tf = load_tensorflow()
    floats = tf.cast(image, tf.float32)
    mean = tf.reduce_mean(floats, axis=[0, 1])
    return _like((floats - mean) * _between(1 - step.most, 1 + step.most, uniforms) + mean, image)


def _saturation(step: Any, image: Any, uniforms: Any) -> Any:
    tf = load_tensorflow()
    floats = tf.cast(image, tf.float32)
    grey = tf.tensordot(floats, tf.constant(_GREY), 1)[..., None]
    return _like((floats - grey) * _between(1 - step.most, 1 + step.most, uniforms) + grey, image)


def _hue(step: Any, image: Any, uniforms: Any) -> Any:
    tf = load_tensorflow()
    angle = 2 * math.pi * _between(-step.most, step.most, uniforms)
    cosine, sine = tf.cos(angle), tf.sin(angle)
    turn = tf.stack([[1.0, 0.0, 0.0], [0.0, cosine, -sine], [0.0, sine, cosine]])
    matrix = tf.constant(np.linalg.inv(_TO_YIQ), tf.float32) @ turn @ tf.constant(_TO_YIQ)
    return _like(tf.tensordot(tf.cast(image, tf.float32), matrix, [[2], [1]]), image)


def _cutout(step: Any, image: Any, uniforms: Any) -> Any:
    tf = load_tensorflow()
    inside = []
    for axis in (0, 1):
        side = tf.shape(image)[axis]
        middle = tf.cast(uniforms[axis] * tf.cast(side, tf.float32), tf.int32)
        places = tf.range(side)
        inside.append((places >= middle - step.size // 2) & (places < middle + (step.size + 1) // 2))
    square = inside[0][:, None, None] & inside[1][None, :, None]
    return tf.where(square, tf.cast(step.fill, image.dtype), image)


def _random_shift(step: Any, image: Any, uniforms: Any) -> Any:
    tf = load_tensorflow()
    for axis in (0, 1):
        side = tf.shape(image)[axis]
        room = tf.cast(tf.round(step.share * tf.cast(side, tf.float32)), tf.int32)
        first = tf.cast(uniforms[axis] * tf.cast(2 * room + 1, tf.float32), tf.int32) - room
        image = tf.gather(image, tf.clip_by_value(tf.range(side) + first, 0, side - 1), axis=axis)
    return image


def _between(low: float, high: float, uniforms: Any) -> Any:
    return low + (high - low) * uniforms[0]


PIXEL_OPS: dict[type, Callable[[Any, Any, Any], Any]] = {
    resize: _resize,
    center_crop: _center_crop,
    random_crop: _random_crop,
    random_flip: _random_flip,
    random_resized_crop: _random_resized_crop,
    random_shift: _random_shift,
    brightness: _brightness,
    contrast: _contrast,
    saturation: _saturation,
    hue: _hue,
    cutout: _cutout,
}


Operation: TypeAlias = Callable[[Any, Any, Any], Any]  # transform, one sample's value, a few numbers of 0 to 1

_UNIFORMS = 4  # the most that a transform may draw for one sample


def transform_batch(
    transforms: Sequence[Any], schema: Schema, specs: dict[str, Any]
) -> Callable[[dict[str, Any], Any], dict[str, Any]]:
    """A function that applies all transforms to a parsed batch; `seed` is for its draws.

    Each transform changes one feature, so the chain of each feature is applied separately.
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
        tf = load_tensorflow()
        for number, (source, target, chain) in enumerate(chains):
            drawn = tf.random.stateless_uniform([len(chain), _UNIFORMS], tf.stack([seed[0], seed[1] + number]))
            encoding = schema[source].encoding if source in schema else "list"
            row = {**row, target: _apply_chain(chain, row[source], drawn, encoding)}
        return row

    return apply


class FeatureChain(NamedTuple):
    """Transforms that run one after the other on one feature, and their result."""

    source: str
    target: str
    steps: list[Any]


def chains_of(transforms: Sequence[Any]) -> list[FeatureChain]:
    """The transforms of each feature; refuses those without ops."""
    chains: list[FeatureChain] = []
    for step in transforms:
        if not (type(step) is decode_image or type(step) in _OPERATIONS):
            raise ValueError(f'engine must be "native" for {type(step).__name__}: there are no TensorFlow ops for it')
        target = declared(step).out or step.feature
        last = next((chain for chain in reversed(chains) if step.feature in (chain.source, chain.target)), None)
        if last is not None and last.source == last.target == step.feature == target:
            last.steps.append(step)
        else:
            chains.append(FeatureChain(step.feature, target, [step]))
    return chains


def is_by_row(transforms: Sequence[Any]) -> bool:
    """Whether any works on one row at a time, as decoding must: rows may have any size until they are resized."""
    return any(type(step) not in _ELEMENTWISE for step in transforms)


def is_random(transforms: Sequence[Any]) -> bool:
    """Whether any of them draws."""
    return any(type(step) not in _FIXED for step in transforms)


def _make_chain(chain: list[Any], schema: Schema, name: str) -> Callable[[Any, Any, Any], Any]:
    if all(type(step) in _ELEMENTWISE for step in chain):
        return lambda value, _, __: _map_values(chain, value)

    def change(value: Any, spec: Any, seed: Any) -> Any:
        """Each row separately, because decoded rows may have any size until they are resized."""
        tf = load_tensorflow()
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
    tf = load_tensorflow()
    if isinstance(value, tf.RaggedTensor):
        return value.with_flat_values(_map_values(chain, value.flat_values))
    for step in chain:
        value = _OPERATIONS[type(step)](step, value, None)
    return value


def _cast(step: Any, value: Any, _: Any) -> Any:
    return load_tensorflow().cast(value, step.dtype)


def _normalise(step: Any, value: Any, _: Any) -> Any:
    tf = load_tensorflow()
    mean, std = tf.constant(step.mean, tf.float32), tf.constant(step.std, tf.float32)
    return (tf.cast(value, tf.float32) - mean) / std


def _scale(step: Any, value: Any, uniforms: Any) -> Any:
    tf = load_tensorflow()
    return tf.cast(value, tf.float32) * (1 - step.most + 2 * step.most * uniforms[0])


def _jitter(step: Any, value: Any, uniforms: Any) -> Any:
    tf = load_tensorflow()
    seed = tf.cast(uniforms[:2] * 2.0**31, tf.int64)
    noise = tf.random.stateless_normal(tf.shape(value), seed, stddev=step.std)
    return tf.cast(value, tf.float32) + noise


def _window(step: Any, value: Any, uniforms: Any) -> Any:
    tf = load_tensorflow()
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
