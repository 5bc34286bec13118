"""Models: custom ones, ready-made ones for each kind of input, and their loss and optimiser."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.checking.rules.model_rules import look_at_model
from bushel.errors import BushelError, FileProblem, SchemaMismatch, nearest
from bushel.feeding.preparation import Input, OutputKind, Problem, Target, dense_array, output_kind
from bushel.keras import load_keras, load_model
from bushel.reading import Split
from bushel.training.inputs.augmentation import FEW_IMAGES, LEAST_SIDE
from bushel.training.inputs.splits import sampled
from bushel.training.options import Options

__all__ = ["SOLVED", "Compiled", "compile_model", "custom_model", "head_problem", "outputs_of", "ready_model"]

# The class in Keras, and its default learning rate.
_OPTIMISERS = {
    "adam": ("Adam", 1e-3),
    "adamw": ("AdamW", 1e-3),
    "nadam": ("Nadam", 1e-3),
    "lion": ("Lion", 1e-4),
    "rmsprop": ("RMSprop", 1e-3),
    "sgd": ("SGD", 1e-2),
}
SOLVED = "solved for penalties from strong to weak"
_LAST_SHARE = 0.01  # the share of the learning rate at the end of a schedule
_WORDS = 20_000
_FITTED_TO = 20_000  # texts to learn a vocabulary from
_TERMS = 40_000  # of a linear model, of words and of characters each
_CHARACTERS = 5  # in a row, at most
_LEAST_TERMS = 50
_SHORT_TEXT = 1000  # bytes up to which characters are terms, too: in long texts words say enough
_AT_ONCE = 64  # texts
_NOTHING = 1e-6  # the weight of what train does not have
_PIXELS = 2048  # values of an image that a linear model takes
_SMALL = 64  # the side up to which images are small
_HALVED = 32  # the side above which few small images are halved first
_PATCH = 4  # the side of fixed filters, and the number of parts of each side of an image that they are averaged in


class Compiled(msgspec.Struct, frozen=True, kw_only=True):
    """How a model was compiled; `form` is how its loss takes labels, `gives` what its outputs are."""

    loss: str
    optimiser: str
    learning_rate: float
    form: str  # codes, column, hot or numbers
    gives: OutputKind

    @property
    def words(self) -> str:
        """Loss and optimiser, as text."""
        if self.optimiser == SOLVED:
            return f"{self.loss.replace('_', ' ')}, {SOLVED}"
        return f"{self.loss.replace('_', ' ')}, {self.optimiser} with a rate of {self.learning_rate:.4g}"


def compile_model(model: Any, target: Target, options: Options, *, steps: int, outputs: NDArray[Any]) -> Compiled:
    """Compile a model; one that is compiled keeps its loss, and its optimiser unless another is asked for.

    Its last layer, and its `outputs` for some records, tell logits from probabilities.
    """
    keras = load_keras()
    is_compiled = getattr(model, "compiled", False) and getattr(model, "loss", None) is not None
    rate = options.learning_rate or _OPTIMISERS[options.optimiser][1]
    keeps = is_compiled and options.learning_rate is None and options.optimiser == "adam"
    keeps = keeps and options.schedule == "constant" and not options.warmup
    gives = _output_kind(model, target, outputs)
    loss = options.loss or (model.loss if is_compiled else _loss_for(keras, model, target, gives))
    if _takes_logits(loss):
        gives = "logits"
    optimiser = model.optimizer if keeps else _optimiser(keras, options, rate, steps)
    form = _form(_loss_name(loss), target, outputs_of(model))
    metric = _metric(keras, model, target, form=form, is_logits=gives == "logits")
    model.compile(optimiser, loss, metrics=[metric], jit_compile=False)
    return Compiled(
        loss=_loss_name(model.loss),
        optimiser=SOLVED if options.is_linear else type(optimiser).__name__,
        learning_rate=float(keras.ops.convert_to_numpy(optimiser.learning_rate)) if keeps else rate,
        form=form,
        gives=gives,
    )


def _output_kind(model: Any, target: Target, outputs: NDArray[Any]) -> OutputKind:
    """Judged by the last layer, or by the outputs if the layer does not tell."""
    if target.kind == "regression":
        return "numbers"
    activation = look_at_model(model, None).activation
    if activation in ("softmax", "sigmoid"):
        return "probabilities"
    is_alone = target.kind == "multi_label" or outputs.shape[-1] == 1
    return "logits" if activation == "linear" and is_alone else output_kind(target.kind, outputs)


def _takes_logits(loss: Any) -> bool:
    config = loss.get_config() if hasattr(loss, "get_config") else {}
    return bool(config.get("from_logits", False))


def _loss_name(loss: Any) -> str:
    """The name of a loss, whether it is a name, a function or an object."""
    if isinstance(loss, str):
        return loss
    return str(getattr(loss, "name", None) or getattr(loss, "__name__", type(loss).__name__))


def outputs_of(model: Any) -> int | None:
    """How many numbers the model outputs per record, if it says."""
    shape = getattr(model, "output_shape", None)
    return int(shape[-1]) if isinstance(shape, tuple) and len(shape) > 1 and shape[-1] else None


def head_problem(model: Any, target: Target) -> str | None:
    """Why the model's output does not fit the labels; None if it does. More units than classes are allowed."""
    units, wanted = outputs_of(model), target.outputs
    if units is None or units == wanted or (target.kind == "binary" and units == 2):
        return None
    if units > wanted and target.kind == "multi_class":
        return None
    return f"the output has {units} unit{'' if units == 1 else 's'}, and {target.words} needs {wanted}"


def _loss_for(keras: Any, model: Any, target: Target, gives: OutputKind) -> Any:
    is_logits = gives == "logits"
    if target.kind == "regression":
        return keras.losses.MeanSquaredError()
    if target.kind == "multi_label" or (target.kind == "binary" and outputs_of(model) == 1):
        return keras.losses.BinaryCrossentropy(from_logits=is_logits)
    return keras.losses.SparseCategoricalCrossentropy(from_logits=is_logits)


def _form(loss: str, target: Target, outputs: int | None) -> str:
    """How a loss takes labels."""
    if target.kind == "regression":
        return "numbers"
    if target.kind == "multi_label":
        return "hot"
    if loss.startswith("sparse"):
        return "codes"
    return "column" if outputs == 1 else "hot"


def _metric(keras: Any, model: Any, target: Target, *, form: str, is_logits: bool) -> Any:
    """The metric to show for each batch."""
    if target.kind == "regression":
        return keras.metrics.MeanAbsoluteError(name="mae")
    if target.kind == "multi_label" or outputs_of(model) == 1:
        return keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.0 if is_logits else 0.5)
    kind = keras.metrics.CategoricalAccuracy if form == "hot" else keras.metrics.SparseCategoricalAccuracy
    return kind(name="accuracy")


def _optimiser(keras: Any, options: Options, rate: float, steps: int) -> Any:
    kind = getattr(keras.optimizers, _OPTIMISERS[options.optimiser][0])
    more = {"momentum": 0.9} if options.optimiser == "sgd" else {}
    return kind(_rate(keras, options, rate, max(1, steps)), **more)


def _rate(keras: Any, options: Options, rate: float, steps: int) -> Any:
    """A number, or a function of the step, so that a resumed run continues at the right rate."""
    schedules = keras.optimizers.schedules
    warm = round(options.warmup * steps)
    if options.schedule == "cosine":
        if not warm:
            return schedules.CosineDecay(rate, steps, alpha=_LAST_SHARE)
        return schedules.CosineDecay(
            0.0, max(1, steps - warm), alpha=_LAST_SHARE, warmup_target=rate, warmup_steps=warm
        )
    if options.schedule == "exponential":
        return schedules.ExponentialDecay(rate, steps, _LAST_SHARE)
    if warm:
        return schedules.CosineDecay(0.0, 10**9, alpha=1.0, warmup_target=rate, warmup_steps=warm)
    return rate


def custom_model(given: Any, problem: Problem, weights: str | None = None) -> Any:
    """The model from `FILE.py:FUNCTION`, a saved `.keras`, a name of `keras.applications`, a function or a model."""
    keras = load_keras()
    if isinstance(given, keras.Model):
        return given
    if callable(given):
        return _checked(_call(given, problem, getattr(given, "__name__", "model")), "model")
    text = str(given)
    if text in _applications(keras):
        return _application(keras, text, problem, weights)
    path, colon, function = text.rpartition(":")
    if colon and path.endswith(".py"):
        return _checked(_call(_function(Path(path), function), problem, text), text)
    if text.endswith(".py"):
        return custom_model(f"{text}:build_model", problem)
    return _load(Path(text))


def _applications(keras: Any) -> list[str]:
    """The networks of `keras.applications`, by name."""
    return [
        name for name in dir(keras.applications) if name[0].isupper() and callable(getattr(keras.applications, name))
    ]


def _application(keras: Any, name: str, problem: Problem, weights: str | None) -> Any:
    """A network of `keras.applications` with a head for the target; it scales pixels itself.

    With weights from a file, its body is frozen at first, and only the head is trained.
    """
    images = [given for given in problem.inputs if given.kind == "image"]
    if len(problem.inputs) != 1 or not images:
        raise SchemaMismatch("this model takes a single image", at=name, help=["Choose it with columns."])
    if weights is not None and not Path(weights).is_file():
        raise FileProblem(weights, "there is no such file")
    make = getattr(keras.applications, name)
    module = sys.modules[make.__module__]
    height, width, channels = images[0].shape
    inputs = x = keras.Input(images[0].shape)
    if channels == 1:
        x = keras.layers.Concatenate()([x, x, x])
    try:
        body = make(include_top=False, weights=weights, input_shape=(height, width, 3))
    except (ValueError, OSError) as error:
        raise FileProblem(name, f"it failed: {str(error).splitlines()[0]}") from None
    body.trainable = weights is None
    x = body(module.preprocess_input(x), training=False) if weights is not None else body(module.preprocess_input(x))
    x = keras.layers.Dropout(0.2)(keras.layers.GlobalAveragePooling2D()(x))
    activation = {"multi_class": "softmax", "regression": None}.get(problem.target.kind, "sigmoid")
    return keras.Model(inputs, keras.layers.Dense(problem.outputs, activation, dtype="float32")(x), name=name.lower())


def _checked(model: Any, where: str) -> Any:
    if not isinstance(model, load_keras().Model):
        raise FileProblem(where, f"it must return a Keras model, got {type(model).__name__}")
    return model


def _load(path: Path) -> Any:
    if not path.exists():
        close = nearest(str(path), _applications(load_keras()))
        meant = f"; did you mean {close!r}?" if close else ""
        raise FileProblem(
            path,
            f"there is no such model{meant}",
            help=["Give FILE.py:FUNCTION, a saved FILE.keras, or a name of keras.applications."],
        )
    if path.suffix == ".keras" and not (path.is_dir() or zipfile.is_zipfile(path)):
        raise FileProblem(path, "this is not a model saved by Keras")
    with warnings.catch_warnings():
        # A model that was saved before its first step has an optimiser without state, and needs none.
        warnings.filterwarnings("ignore", "Skipping variable loading for optimizer")
        return load_model(path, purpose="bushel train", compile=True)


def _function(path: Path, name: str) -> Callable[..., Any]:
    if not path.is_file():
        raise FileProblem(path, "there is no such file")
    spec = importlib.util.spec_from_file_location(f"bushel_model_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # so that its classes can be saved and loaded
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise FileProblem(path, f"it cannot be imported: {type(error).__name__}: {error}") from error
    found = getattr(module, name, None)
    if not callable(found):
        functions = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        close = nearest(name, functions)
        raise FileProblem(path, f"there is no function {name!r}" + (f"; did you mean {close!r}?" if close else ""))
    function: Callable[..., Any] = found
    return function


def _call(function: Callable[..., Any], problem: Problem, where: str) -> Any:
    """Call the function, with the problem if it takes a parameter."""
    takes = any(
        parameter.default is parameter.empty and parameter.kind in (0, 1)
        for parameter in inspect.signature(function).parameters.values()
    )
    try:
        return function(problem) if takes else function()
    except BushelError:
        raise
    except Exception as error:
        raise FileProblem(where, f"it failed: {type(error).__name__}: {error}") from error


def ready_model(problem: Problem, train: Split, *, is_linear: bool = False) -> Any:
    """A model for these inputs and this target, small enough to train from scratch."""
    keras = load_keras()
    encoders = _LINEAR_ENCODERS if is_linear else _ENCODERS
    inputs, encoded = {}, []
    for given in problem.inputs:
        inputs[given.name] = keras.Input(given.shape, dtype=given.dtype, name=_plain(given.name))
        encoded.append(encoders[given.kind or "number"](keras, given, inputs[given.name], train))
    joined = encoded[0] if len(encoded) == 1 else keras.layers.Concatenate()(encoded)
    if not is_linear and any(given.kind in ("number", "category", "sparse") for given in problem.inputs):
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


def _image(keras: Any, given: Input, x: Any, train: Split) -> Any:
    if given.dtype == "uint8":
        x = keras.layers.Rescaling(1 / 127.5, -1.0)(x)
    elif given.mean:
        x = keras.layers.Normalization(mean=given.mean, variance=np.square(given.std))(x)
    side, are_few = int(given.shape[0] or 32), len(train) < FEW_IMAGES
    if are_few and _HALVED < side <= _SMALL:  # which takes a third of the time
        x, side = keras.layers.AveragePooling2D(2, padding="same")(x), (side + 1) // 2
    learned = _convolutions(keras, x, side)
    if not are_few or min(size or 0 for size in given.shape[:2]) < LEAST_SIDE:
        return learned
    return keras.layers.Concatenate()([learned, _textures(keras, x)])


def _textures(keras: Any, x: Any) -> Any:
    """How strong each kind of pattern and colour is in each part of an image, by filters that need not be learned.

    Few images teach convolutions little; a linear model of these numbers is often better than they are.
    """
    least = min(x.shape[1:3])
    if least > _HALVED:
        x = keras.layers.AveragePooling2D(-(-least // _HALVED), padding="same")(x)
    filters = _filters(int(x.shape[-1]))
    convolution = keras.layers.Conv2D(filters.shape[-1], _PATCH, activation="relu", use_bias=False, trainable=False)
    found = convolution(x)
    convolution.set_weights([filters])
    parts = [-(-size // _PATCH) for size in found.shape[1:3]]
    x = keras.layers.Flatten()(keras.layers.AveragePooling2D(parts, padding="same")(found))
    x = keras.layers.BatchNormalization(momentum=0.9, center=False, scale=False)(x)
    return keras.layers.Dropout(0.2)(x)


def _filters(channels: int) -> NDArray[np.float32]:
    """The cosines of a patch, in brightness and in two differences of colours, each with both signs."""
    places = np.arange(_PATCH)
    waves = np.cos(np.pi * np.outer(places, 2 * places + 1) / (2 * _PATCH))
    colours = np.array([[1, 1, 1], [1, 0, -1], [-1, 2, -1]]) if channels == 3 else np.eye(channels)
    waves, colours = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (waves, colours))
    filters = np.einsum("ay,bx,kc->yxcabk", waves, waves, colours).reshape(_PATCH, _PATCH, channels, -1)
    return np.concatenate([filters, -filters], axis=-1).astype(np.float32)


def _convolutions(keras: Any, x: Any, side: int) -> Any:
    """Convolutions and pooling down to about 4 x 4; then flattened for small images, averaged for large ones."""
    is_small, width, is_first = side <= _SMALL, 32, True
    while side > 4 or is_first:
        strides = 2 if side > _SMALL else 1
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
    words = keras.layers.Embedding(size, 64)(tokens)
    real = keras.ops.expand_dims(keras.ops.cast(keras.ops.not_equal(tokens, 0), words.dtype), -1)
    words = words * real
    # A text without words has a mean of 0: divided by a count of 0, it would turn all weights to NaN in one step.
    mean = keras.ops.sum(words, axis=1) / keras.ops.maximum(keras.ops.sum(real, axis=1), 1)
    phrases = keras.layers.Conv1D(64, 3, padding="same", activation="relu")(words)
    joined = keras.layers.Concatenate()([mean, keras.layers.GlobalMaxPooling1D()(phrases)])
    return keras.layers.Dropout(0.3)(joined)


def _text(keras: Any, given: Input, x: Any, train: Split) -> Any:
    texts = dense_array(given.name, sampled(train, [given.name], _FITTED_TO)[given.name])
    split = "character" if given.unit == "character" else "whitespace"
    learning = keras.layers.TextVectorization(max_tokens=_WORDS, output_sequence_length=given.length, split=split)
    learning.adapt(texts)
    words = learning.get_vocabulary(
        include_special_tokens=False
    )  # passed on, they become part of the model's configuration
    layer = keras.layers.TextVectorization(output_sequence_length=given.length, vocabulary=words, split=split)
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
    """The code of a category; many have an embedding."""
    size, codes = len(given.values) + 1, _codes(keras, given, x)
    if size <= 8:
        return keras.ops.one_hot(codes, size)
    return keras.layers.Embedding(size, min(32, size // 2))(codes)


def _codes(keras: Any, given: Input, x: Any) -> Any:
    """Code 0 is for values that train does not have. Integers need no lookup table, which few formats can hold."""
    if given.dtype == "string":
        return keras.layers.StringLookup(vocabulary=given.values)(x)
    is_value = keras.ops.equal(keras.ops.expand_dims(x, -1), np.array(given.values, np.int64))
    found = keras.ops.argmax(keras.ops.cast(is_value, "int32"), axis=-1) + 1
    return keras.ops.where(keras.ops.any(is_value, axis=-1), found, keras.ops.zeros_like(found))


def _one_hot(keras: Any, given: Input, x: Any, _: Split) -> Any:
    return keras.ops.one_hot(_codes(keras, given, x), len(given.values) + 1)


def _steps(keras: Any, given: Input, x: Any, _: Split) -> Any:
    """All values of a series, standardised."""
    if len(given.shape) == 1:
        x = keras.layers.Reshape((*given.shape, 1))(x)
    if given.mean:
        x = keras.layers.Normalization(mean=given.mean, variance=np.square(given.std))(x)
    return keras.layers.Flatten()(x)


def _pixels(keras: Any, given: Input, x: Any, _: Split) -> Any:
    """All pixels; of large images, the means of squares of them."""
    x = keras.ops.cast(x, "float32") if given.dtype != "uint8" else keras.layers.Rescaling(1 / 127.5, -1.0)(x)
    if given.kind == "clip":  # how the frames look, and where they change
        x = keras.layers.Concatenate()([keras.ops.mean(x, axis=1), keras.ops.std(x, axis=1)])
    height, width, channels = (int(size or 1) for size in x.shape[1:])
    side = 1
    while -(-height // side) * -(-width // side) * channels > _PIXELS and side < min(height, width):
        side += 1
    if side > 1:
        x = keras.layers.AveragePooling2D(side, padding="same")(x)
    if given.mean:
        x = keras.layers.Normalization(mean=given.mean, variance=np.square(given.std))(x)
    return keras.layers.Flatten()(x)


def _term_weights(keras: Any, given: Input, x: Any, train: Split) -> Any:
    """TF-IDF of words and pairs of words, and of characters in a row where texts are short or have no spaces."""
    texts = dense_array(given.name, sampled(train, [given.name], _FITTED_TO)[given.name])
    parts = []
    if given.unit == "word":
        parts.append(_terms(keras, x, texts, split="whitespace", ngrams=2))
    if given.unit == "character" or np.mean([len(text) for text in texts]) <= _SHORT_TEXT:
        parts.append(_terms(keras, x, texts, split="character", ngrams=_CHARACTERS))
    return parts[0] if len(parts) == 1 else keras.layers.Concatenate()(parts)


def _terms(keras: Any, x: Any, texts: NDArray[Any], *, split: str, ngrams: int) -> Any:
    standardise = "lower_and_strip_punctuation" if split == "whitespace" else "lower"
    settings = {"standardize": standardise, "split": split, "ngrams": ngrams}
    learning = keras.layers.TextVectorization(max_tokens=_TERMS, output_mode="multi_hot", **settings)
    learning.adapt(texts)
    pieces = [np.asarray(learning(texts[at : at + _AT_ONCE])) for at in range(0, len(texts), _AT_ONCE)]
    holding = np.sum([piece.sum(axis=0) for piece in pieces], axis=0)
    words = np.array(learning.get_vocabulary(include_special_tokens=False), object)
    is_common = holding[1:] >= 2  # what only one text has says nothing of others
    if is_common.sum() >= _LEAST_TERMS:
        words, holding = words[is_common], np.append(holding[0], holding[1:][is_common])
    words = words.tolist()
    counting = keras.layers.TextVectorization(output_mode="count", vocabulary=words, **settings)
    return _weighed(keras, counting(x), holding, len(texts))


def _weighed(keras: Any, counts: Any, holding: NDArray[Any], texts: int) -> Any:
    """Counts of terms, damped, times how rare each is in train, as rows of length 1. The first is of unknown terms."""
    rarity = np.log((1 + texts) / (1 + holding.astype(np.float64))) + 1
    rarity[0] = _NOTHING
    weighed = keras.layers.Normalization(mean=np.zeros_like(rarity), variance=rarity**-2.0)(keras.ops.log1p(counts))
    return keras.layers.UnitNormalization()(weighed)


def _token_weights(keras: Any, given: Input, x: Any, train: Split) -> Any:
    """TF-IDF of tokens. Ids beyond the widest row share its places."""
    size = min(given.size, _TERMS)
    column = sampled(train, [given.name], _FITTED_TO)[given.name]
    ids = [np.unique(np.asarray(row)[np.asarray(row) != given.pad] % size) for row in column]
    holding = np.bincount(np.concatenate(ids).astype(np.int64), minlength=size)
    is_known = keras.ops.logical_and(x >= 0, x != given.pad)
    places = keras.ops.where(is_known, x % size + 1, keras.ops.zeros_like(x))
    counts = keras.layers.CategoryEncoding(size + 1, output_mode="count")(places)
    return _weighed(keras, counts, np.append(0, holding), len(ids))


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
_LINEAR_ENCODERS = {
    "image": _pixels,
    "clip": _pixels,
    "series": _steps,
    "tokens": _token_weights,
    "text": _term_weights,
    "sparse": lambda keras, given, x, train: x,  # noqa: ARG005
    "number": _number,
    "category": _one_hot,
}
