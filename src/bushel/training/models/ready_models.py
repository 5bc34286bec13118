"""Default models: an encoder for each kind of input, joined, and a head for the target."""

from __future__ import annotations

from typing import Any

import numpy as np

from bushel.feeding.preparation import Input, Problem, Target, dense_array
from bushel.keras import load_keras
from bushel.reading import Split
from bushel.training.inputs.splits import sampled

__all__ = ["ready_model"]

_WORDS = 20_000
_FITTED_TO = 20_000  # texts to learn a vocabulary from


def ready_model(problem: Problem, train: Split) -> Any:
    """A model for these inputs and this target, small enough to train from scratch."""
    keras = load_keras()
    inputs, encoded = {}, []
    for given in problem.inputs:
        inputs[given.name] = keras.Input(given.shape, dtype=given.dtype, name=_plain(given.name))
        encoded.append(_ENCODERS[given.kind or "number"](keras, given, inputs[given.name], train))
    joined = encoded[0] if len(encoded) == 1 else keras.layers.Concatenate()(encoded)
    if any(given.kind in ("number", "category", "sparse") for given in problem.inputs):
        joined = keras.layers.Dense(128, "relu")(joined)
        joined = keras.layers.Dropout(0.1)(joined)
        joined = keras.layers.Dense(64, "relu")(joined)
    outputs = _head(keras, joined, problem.target, train)
    return keras.Model(inputs if len(inputs) > 1 else next(iter(inputs.values())), outputs, name="ready")


def _plain(name: str) -> str:
    return name.replace("/", ".")


def _head(keras: Any, x: Any, target: Target, train: Split) -> Any:
    activations = {"binary": "sigmoid", "multi_class": "softmax", "multi_label": "sigmoid", "regression": None}
    x = keras.layers.Dense(target.outputs, activations[target.kind], dtype="float32", name="head")(x)
    if target.kind == "regression":
        labels = np.asarray(sampled(train, [target.label], 5000)[target.label], np.float64)
        std = float(labels.std()) or 1.0
        x = keras.layers.Rescaling(std, float(labels.mean()), dtype="float32", name="units")(x)
    return x


def _image(keras: Any, given: Input, x: Any, _: Split) -> Any:
    if given.dtype == "uint8":
        x = keras.layers.Rescaling(1 / 127.5, -1.0)(x)
    elif given.mean:
        x = keras.layers.Normalization(mean=given.mean, variance=np.square(given.std))(x)
    return _convolutions(keras, x, int(given.shape[0] or 32))


def _convolutions(keras: Any, x: Any, side: int) -> Any:
    """Convolutions and pooling down to about 4 x 4; then flattened for small images, averaged for large ones."""
    is_small, width, is_first = side <= 64, 32, True
    while side > 4 or is_first:
        strides = 2 if side > 64 else 1
        convolution = keras.layers.Conv2D if is_first or is_small else keras.layers.SeparableConv2D
        x = convolution(width, 3, strides=strides, padding="same", use_bias=False)(x)
        x = keras.layers.BatchNormalization(momentum=0.9)(x)
        x = keras.layers.ReLU()(x)
        if strides == 1 and side > 4:
            x = keras.layers.MaxPooling2D(2, padding="same")(x)
        side, width, is_first = (side + 1) // 2, min(2 * width, 128 if is_small else 256), False
    pooled = keras.layers.Flatten()(x) if is_small else keras.layers.GlobalAveragePooling2D()(x)
    return keras.layers.Dropout(0.2)(pooled)


def _clip(keras: Any, given: Input, x: Any, _: Split) -> Any:
    """Convolutions on each frame; then the mean of the frames, and what changes between them."""
    if given.dtype == "uint8":
        x = keras.layers.Rescaling(1 / 127.5, -1.0)(x)
    elif given.mean:
        x = keras.layers.Normalization(mean=given.mean, variance=np.square(given.std))(x)
    shape = [size or 1 for size in given.shape[1:]]
    frame = keras.Input(shape)
    encoder = keras.Model(frame, keras.layers.Dense(64, "relu")(_convolutions(keras, frame, shape[0])), name="frame")
    x = keras.layers.TimeDistributed(encoder)(x)
    changes = keras.layers.Conv1D(64, 3, padding="same", activation="relu")(x)
    means = keras.layers.GlobalAveragePooling1D()(x)
    return keras.layers.Concatenate()([means, keras.layers.GlobalMaxPooling1D()(changes)])


def _series(keras: Any, given: Input, x: Any, _: Split) -> Any:
    shape = given.shape if len(given.shape) > 1 else (*given.shape, 1)
    if len(given.shape) == 1:
        x = keras.layers.Reshape(shape)(x)
    if given.mean:
        x = keras.layers.Normalization(mean=given.mean, variance=np.square(given.std))(x)
    steps, width = int(shape[0] or 1), 32
    for number in range(3):
        x = keras.layers.Conv1D(width << number, 5, padding="same", use_bias=False)(x)
        x = keras.layers.BatchNormalization(momentum=0.9)(x)
        x = keras.layers.ReLU()(x)
        if steps >= 8:
            x, steps = keras.layers.MaxPooling1D(2)(x), steps // 2
    pooled = [keras.layers.GlobalAveragePooling1D()(x), keras.layers.GlobalMaxPooling1D()(x)]
    return keras.layers.Dropout(0.2)(keras.layers.Concatenate()(pooled))


def _tokens(keras: Any, given: Input, x: Any, _: Split) -> Any:
    """Padding becomes 0, and ids beyond those of the train split become one id for unknown."""
    moved = 0 if given.pad == 0 else 1  # makes room for padding if 0 is an id
    unknown = given.size + moved
    known = keras.ops.where(keras.ops.logical_and(x >= 0, x < given.size), x + moved, unknown)
    return _sequence(keras, keras.ops.where(x == given.pad, 0, known), unknown + 1)


def _sequence(keras: Any, tokens: Any, size: int) -> Any:
    """The mean of the words, and the strongest of three words in a row."""
    words = keras.layers.Embedding(size, 64, mask_zero=True)(tokens)
    mean = keras.layers.GlobalAveragePooling1D()(words)
    real = keras.ops.expand_dims(keras.ops.cast(keras.ops.not_equal(tokens, 0), words.dtype), -1)
    phrases = keras.layers.Conv1D(64, 3, padding="same", activation="relu")(words * real)
    joined = keras.layers.Concatenate()([mean, keras.layers.GlobalMaxPooling1D()(phrases)])
    return keras.layers.Dropout(0.3)(joined)


def _text(keras: Any, given: Input, x: Any, train: Split) -> Any:
    texts = dense_array(given.name, sampled(train, [given.name], _FITTED_TO)[given.name])
    learning = keras.layers.TextVectorization(max_tokens=_WORDS, output_sequence_length=given.length)
    learning.adapt(texts)
    words = learning.get_vocabulary(
        include_special_tokens=False
    )  # passed on, they become part of the model's configuration
    layer = keras.layers.TextVectorization(output_sequence_length=given.length, vocabulary=words)
    return _sequence(keras, layer(x), layer.vocabulary_size())


def _sparse(keras: Any, given: Input, x: Any, _: Split) -> Any:  # noqa: ARG001
    return keras.layers.Dense(64, "relu")(x)


def _number(keras: Any, given: Input, x: Any, _: Split) -> Any:
    if not given.shape:
        x = keras.ops.expand_dims(x, -1)
    x = keras.layers.Normalization(mean=given.mean, variance=np.square(given.std))(x)
    if not given.has_missing:
        return x
    missing = keras.ops.isnan(x)
    return keras.layers.Concatenate()([keras.ops.where(missing, 0.0, x), keras.ops.cast(missing, x.dtype)])


def _category(keras: Any, given: Input, x: Any, _: Split) -> Any:
    """Code 0 is for values that train does not have. Integers need no lookup table, which few formats can hold."""
    size = len(given.values) + 1
    if given.dtype == "string":
        codes = keras.layers.StringLookup(vocabulary=given.values)(x)
    else:
        is_value = keras.ops.equal(keras.ops.expand_dims(x, -1), np.array(given.values, np.int64))
        found = keras.ops.argmax(keras.ops.cast(is_value, "int32"), axis=-1) + 1
        codes = keras.ops.where(keras.ops.any(is_value, axis=-1), found, keras.ops.zeros_like(found))
    if size <= 8:
        return keras.ops.one_hot(codes, size)
    return keras.layers.Embedding(size, min(32, size // 2))(codes)


_ENCODERS = {
    "image": _image,
    "clip": _clip,
    "series": _series,
    "tokens": _tokens,
    "text": _text,
    "sparse": _sparse,
    "number": _number,
    "category": _category,
}
