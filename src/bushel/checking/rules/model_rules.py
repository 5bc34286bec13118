"""MDL: a Keras model against the data. Keras is imported when a model is given, and not before."""

from __future__ import annotations

import contextlib
import json
import math
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bushel.checking.collect.facts import Data, FeatureFacts
from bushel.checking.findings import Finding, Location, rule
from bushel.checking.rules.keras_expectations import network_range
from bushel.checking.rules.label_rules import is_classification


@dataclass
class ModelFacts:
    """What a model says of itself."""

    model: Any
    name: str
    data: Data | None
    layers: list[Any] = field(default_factory=list)
    input_shape: tuple[int | None, ...] | None = None
    classes: int | None = None
    activation: str | None = None
    activated_twice: str | None = None  # what comes before the last activation, where that makes probabilities too
    loss: str | None = None
    from_logits: bool | None = None
    learning_rate: float | None = None
    optimizer: dict[str, Any] | None = None  # as Keras describes it

    @property
    def labels(self) -> int | None:
        """How many classes its output tells apart: a single sigmoid tells two."""
        is_binary = self.activation == "sigmoid" or "binary" in (self.loss or "")
        return self.classes if self.classes != 1 else 2 if is_binary else None

    @property
    def dropout(self) -> float:
        """The largest share of units that a layer drops."""
        return max((float(getattr(layer, "rate", 0.0) or 0.0) for layer in self.layers if _drops(layer)), default=0.0)

    @property
    def decay(self) -> float:
        """How fast the optimiser pulls weights to 0, beside what gradients do."""
        return float((self.optimizer or {}).get("config", self.optimizer or {}).get("weight_decay") or 0.0)

    @property
    def penalty(self) -> float:
        """What regularisers add to the loss, with the weights as they are."""
        try:
            return float(sum(float(np.asarray(loss)) for loss in getattr(self.model, "losses", [])))
        except (TypeError, ValueError):
            return 0.0

    @cached_property
    def expects(self) -> str | None:
        """The range of pixels that it is made for: the one of which its first layer with weights gets good values.

        None where nothing comes before that layer, and it is none that is known.
        """
        try:
            return _measured_range(self.model)
        except Exception:  # a custom model may refuse to be called in parts in any way
            return None

    def input_feature(self) -> FeatureFacts | None:
        """The feature that the model is fed: the one whose values fit its input."""
        if self.data is None:
            return None
        size = size_of(self.input_shape)
        features = [f for f in self.data.features.values() if f.is_number and f.name != self.data.label]
        fitting = [f for f in features if size is not None and f.length == size]
        widest = sorted(features, key=lambda f: -(f.length or 0))
        return next(iter(fitting or widest), None)


def _drops(layer: Any) -> bool:
    return "Dropout" in type(layer).__name__


_SPANS = {"0..255": (0.0, 255.0), "0..1": (0.0, 1.0), "-1..1": (-1.0, 1.0)}
_WANTED = {**_SPANS, "around 0, up to 151": (-124.0, 151.0), "standardised": (-2.1, 2.6)}
_WITHOUT_RANGE = ("Normalization", "BatchNormalization", "Rescaling")


def _measured_range(model: Any) -> str | None:
    """Feed each range up to the first layer that has weights, and choose the one that comes out best there.

    Where a layer before it normalises by what it has seen, any range will do.
    """
    shape = getattr(model, "input_shape", None)
    if not isinstance(shape, tuple) or len(shape) < 2:
        return None
    name, received = _application_of(model), dict(_SPANS)
    is_changed = False
    while name is None:
        first, normalises = _first_with_weights(model)
        if first is None or (normalises and _application_of(first.operation) is None):
            return None
        if type(first.operation).__name__ == "Embedding":  # ids have no range
            return None
        found = {span: _values_before(model, first, ends) for span, ends in received.items()}
        is_changed = is_changed or any(not np.allclose(found[span], received[span]) for span in received)
        received, name = found, _application_of(first.operation)
        if name is None and not hasattr(first.operation, "layers"):
            break
        model = first.operation
    if name is not None:
        wanted = _WANTED[name]
        # A span that nothing makes of pixels stays to be said: whoever feeds the model has to know it.
        fits = {span: _distance(ends, wanted) for span, ends in received.items()}
        best = min(fits, key=lambda span: fits[span])
        return best if fits[best] < 0.2 else name
    return min(received, key=lambda span: _oddness(*received[span])) if is_changed else None


def _application_of(layer: Any) -> str | None:
    """The range of an application of Keras, by its name."""
    span = network_range(str(getattr(layer, "name", ""))) if hasattr(layer, "layers") else None
    return {"the means of ImageNet taken off": "around 0, up to 151"}.get(span or "", span)


def _first_with_weights(model: Any) -> tuple[Any, bool]:
    """The first call in a graph of a layer that has weights, and whether one before it normalises."""
    graph = getattr(model, "_functional", None) or model  # a Sequential has one inside
    depths = sorted(graph._nodes_by_depth, reverse=True)  # Keras has no public way to the calls of a graph
    normalises = False
    for node in (node for depth in depths for node in graph._nodes_by_depth[depth]):
        kind = type(node.operation).__name__
        normalises = normalises or kind in ("Normalization", "BatchNormalization")
        if kind not in _WITHOUT_RANGE and getattr(node.operation, "weights", None):
            return node, normalises
    return None, normalises


def _values_before(model: Any, node: Any, ends: tuple[float, float]) -> tuple[float, float]:
    """The smallest and largest value that reach a layer, if black and white images come in."""
    import keras

    from bushel.keras import as_array

    graph = getattr(model, "_functional", None) or model
    if node.input_tensors[0] is graph.inputs[0]:  # nothing is before it
        return ends
    before = keras.Model(graph.inputs[0], node.input_tensors[0])
    shape = [size or 32 for size in model.input_shape[1:]]
    x = np.stack([np.full(shape, end, np.float32) for end in ends])
    out = as_array(before(x, training=False))
    return float(out.min()), float(out.max())


def _distance(ends: tuple[float, float], wanted: tuple[float, float]) -> float:
    return (abs(ends[0] - wanted[0]) + abs(ends[1] - wanted[1])) / (wanted[1] - wanted[0])


def _oddness(low: float, high: float) -> float:
    """How far values are from what layers are made for: a span of about 1, around 0 or from there on."""
    span = max(high - low, 1e-9)
    return abs(math.log10(span / 1.5)) + max(0.0, abs(low + high) / 2 / span - 0.75)


def size_of(shape: tuple[int | None, ...] | None) -> int | None:
    """How many values one row has; None if that is not known."""
    if shape is None or any(size is None for size in shape[1:]):
        return None
    return math.prod(size for size in shape[1:] if size is not None)


def look_at_model(model: Any, data: Data | None) -> ModelFacts:
    """Load a model, if it is a path, and note what it says of itself."""
    name = str(model) if isinstance(model, str | Path) else getattr(model, "name", "model")
    if isinstance(model, str | Path):
        model = _load(Path(model))
    facts = ModelFacts(model, name, data, layers=_flat(model))
    shape = getattr(model, "input_shape", None)
    facts.input_shape = tuple(shape) if isinstance(shape, tuple) else None
    for layer in reversed(facts.layers):
        if hasattr(layer, "activation") and hasattr(layer, "units"):
            facts.classes = int(layer.units)
            facts.activation = getattr(layer.activation, "__name__", None)
            break
    last = facts.layers[-1] if facts.layers else None
    if type(last).__name__ in ("Softmax", "Activation"):
        facts.activated_twice = facts.activation if facts.activation in ("softmax", "sigmoid") else None
        facts.activation = "softmax" if type(last).__name__ == "Softmax" else last.activation.__name__  # type: ignore[union-attr]
    facts.activation = _last_function(model, facts.activation)
    loss = getattr(model, "loss", None)
    facts.loss = loss if isinstance(loss, str) else getattr(loss, "name", None) if loss is not None else None
    facts.from_logits = None if loss is None else bool(_from_logits(loss))
    facts.optimizer = _optimizer_of(model)
    rate = (facts.optimizer or {}).get("config", {}).get("learning_rate")
    facts.learning_rate = float(rate) if isinstance(rate, int | float) else None
    return facts


def _last_function(model: Any, activation: str | None) -> str | None:
    """The activation of a model that ends with a function, such as `keras.ops.softmax`; None if that is another one."""
    last = next(iter(reversed(getattr(model, "operations", None) or [])), None)
    if last is None or hasattr(last, "weights"):  # a layer, which has been looked at
        return activation
    name = type(last).__name__.lower()
    return name if name in ("softmax", "sigmoid", "relu", "tanh") else None


def _optimizer_of(model: Any) -> dict[str, Any] | None:
    """The optimiser that a model was compiled with, also where its file was loaded without."""
    if (described := getattr(model, "_bushel_optimizer", None)) is not None:
        return dict(described)
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        return None
    import keras

    found = keras.optimizers.serialize(optimizer)
    return found if isinstance(found, dict) else None


def _from_logits(loss: Any) -> bool:
    config = loss.get_config() if hasattr(loss, "get_config") else {}
    return bool(config.get("from_logits", False))


def _load(path: Path) -> Any:
    """A saved model with its loss; its optimiser, which may never have made a step, is not needed."""
    from bushel.keras import load_model

    is_archive = zipfile.is_zipfile(path)
    model = load_model(path, purpose="checking a model", compile=not is_archive)
    config = _compile_config(path) if is_archive else None
    if config is not None:
        with contextlib.suppress(ValueError, TypeError):  # a custom loss that is not registered
            model.compile_from_config({**config, "optimizer": "rmsprop"})
            model._bushel_optimizer = config.get("optimizer")
    return model


def _compile_config(path: Path) -> dict[str, Any] | None:
    """What a `.keras` file says of loss and metrics."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = json.loads(archive.read("config.json")).get("compile_config")
    except (zipfile.BadZipFile, KeyError, ValueError):
        return None  # of another format
    return found if isinstance(found, dict) and found.get("loss") is not None else None


def _flat(model: Any) -> list[Any]:
    """Layers in order; an application inside a model stays one layer."""
    layers: list[Any] = []
    for layer in getattr(model, "layers", []):
        layers += _flat(layer) if hasattr(layer, "layers") and network_range(layer.name) is None else [layer]
    return [layer for layer in layers if type(layer).__name__ != "InputLayer"]


def span_of(feature: FeatureFacts) -> str | None:
    """The range that values have: 0..255, 0..1, -1..1 or standardised."""
    low, high = feature.min, feature.max
    if low >= 0 and 32 < high <= 255:
        return "0..255"
    if low >= 0 and high <= 1:
        return "0..1"
    if -1 <= low < 0 and high <= 1:
        return "-1..1"
    if abs(feature.mean) < 1 and 0.2 < feature.deviation < 5 and low < 0:
        return "standardised"
    return None


def model_place(facts: ModelFacts) -> list[Location]:
    """Where findings about a model point: at its file."""
    return [Location(file=facts.name)]


@rule("MDL001", "input-range-mismatch", needs="model")
def input_range_mismatch(facts: ModelFacts) -> Iterator[Finding]:
    """Values in another range than the model's first layers are made for.

    Why: a model with Rescaling inside that is fed 0..1 sees black: EfficientNet near chance where MobileNet learns.
    Example: data divided by 255, and EfficientNetB0, which divides by 255 itself.
    Fix: feed the range that is named.
    Ignore: where the script that feeds the model scales again.
    """
    feature = facts.input_feature()
    span, expected = (span_of(feature) if feature is not None else None), facts.expects
    if feature is not None and span is not None and expected is not None and span != expected:
        yield Finding(
            f"the model is made for {expected}, and {feature.name!r} is {span}",
            severity=None if expected in ("0..255", "-1..1") else "warning",
            confidence="likely",
            locations=[*model_place(facts), Location(feature=feature.name)],
            evidence={"measured": [feature.min, feature.max], "expected": expected},
            help=[
                f"feed {expected}: do not scale before the model" if expected == "0..255" else f"scale to {expected}"
            ],
        )


@rule("MDL002", "loss-does-not-fit-output", needs="model")
def loss_does_not_fit_output(facts: ModelFacts) -> Iterator[Finding]:
    """A loss that takes logits for probabilities, probabilities for logits, or labels of another form.

    Why: training runs, and accuracy stays near chance.
    Example: `Dense(4)` with `SparseCategoricalCrossentropy()`; a softmax over one unit.
    Fix: `from_logits=True`, or `activation="softmax"`; `sigmoid` for one unit.
    Ignore: never.
    """
    if facts.loss is None:
        return
    place = model_place(facts)
    yield from _unlikely_pairs(facts, place)
    if "crossentropy" not in facts.loss:
        return
    if facts.activated_twice is not None and facts.activation in ("softmax", "sigmoid"):
        yield Finding(f"the model's last layers are {facts.activated_twice} and {facts.activation}: one is too many",
                      locations=place, evidence={"measured": f"{facts.activated_twice}, then {facts.activation}"},
                      help=["leave one of them out"])  # fmt: skip
    if facts.activation == "linear" and not facts.from_logits:
        yield Finding("the model gives logits, but the loss takes them for probabilities", locations=place,
                      evidence={"measured": "linear", "expected": "softmax or from_logits=True"},
                      help=["compile with from_logits=True"])  # fmt: skip
    if facts.activation in ("softmax", "sigmoid") and facts.from_logits:
        yield Finding(f"the model gives probabilities ({facts.activation}), but the loss takes them for logits",
                      locations=place, evidence={"measured": facts.activation, "expected": "from_logits=False"},
                      help=["compile with from_logits=False"])  # fmt: skip
    if facts.activation == "softmax" and facts.classes == 1:
        yield Finding("a softmax over one unit is always 1", locations=place,
                      help=["use one unit per class, or sigmoid if there are two classes"])  # fmt: skip
    label = facts.data.features.get(facts.data.label or "") if facts.data is not None else None
    is_categorical = facts.loss.endswith("categorical_crossentropy")
    if label is not None and is_categorical:
        wants_one_hot = not facts.loss.startswith("sparse")
        if wants_one_hot and label.length == 1:
            yield Finding(
                f"{facts.loss} takes one-hot labels, and {label.name!r} is one number",
                locations=place,
                evidence={"measured": label.length, "expected": facts.classes},
                help=["use sparse_categorical_crossentropy"],
            )


def _unlikely_pairs(facts: ModelFacts, place: list[Location]) -> Iterator[Finding]:
    """A loss and an activation that do not go together, whatever the labels are."""
    loss, activation, units = str(facts.loss), facts.activation, facts.classes
    is_of_numbers = loss.startswith("mean_") or loss in ("mse", "mae", "mape", "msle", "huber", "log_cosh")
    wanted = None
    if "crossentropy" in loss and activation in ("relu", "tanh", "elu", "selu", "gelu", "leaky_relu", "softplus"):
        wanted = "softmax or sigmoid"
    elif loss == "binary_crossentropy" and activation == "softmax" and units != 1:
        wanted = "sigmoid; or categorical_crossentropy as the loss"
    elif loss.endswith("categorical_crossentropy") and activation == "sigmoid":
        wanted = "softmax" if units != 1 else "binary_crossentropy as the loss"
    elif is_of_numbers and activation == "softmax":
        wanted = "sparse_categorical_crossentropy as the loss"
    elif is_of_numbers and activation in ("sigmoid", "tanh", "relu") and facts.data is not None:
        label = facts.data.features.get(facts.data.label or "")
        floor = {"sigmoid": 0.0, "tanh": -1.0, "relu": 0.0}[activation]
        ceiling = 1.0 if activation != "relu" else math.inf
        if label is not None and label.is_number and (label.min < floor or label.max > ceiling):
            wanted = "no activation in the last layer: the labels go beyond what it can give"
    if wanted is not None:
        yield Finding(
            f"{loss} does not go with an output of {activation}",
            locations=place,
            evidence={"measured": activation, "expected": wanted},
            help=[f"use {wanted}"],
        )


@rule("MDL003", "head-does-not-fit-labels", needs="model", when=())
def head_does_not_fit_labels(facts: ModelFacts) -> Iterator[Finding]:
    """An output with another number of classes than the labels have.

    Why: too few: labels out of range. Too many: classes that are never right.
    Example: labels 0 to 10 and a head of 10.
    Fix: one unit for each class.
    Ignore: more units than classes, where the head is shared.
    """
    data = facts.data
    if data is None or data.train is None or facts.classes is None or not is_classification(data):
        return
    classes = max(data.train.label_counts, default=-1) + 1
    is_number = facts.classes == 1 and facts.labels is None  # a model that gives one number has no classes
    is_binary = facts.classes == 1 and classes <= 2
    if facts.classes != classes and not is_binary and not is_number:
        yield Finding(
            f"the output has {facts.classes} units, but labels go up to {classes - 1}",
            severity="error" if facts.classes < classes else "warning",
            locations=[*model_place(facts), Location(feature=data.label)],
            evidence={"measured": facts.classes, "expected": classes},
            help=[f"use {classes} units"],
        )


@rule("MDL004", "input-shape-mismatch", needs="model")
def input_shape_mismatch(facts: ModelFacts) -> Iterator[Finding]:
    """An input of another size than the data's vectors or pictures, or with another number of channels.

    Why: training stops at the first step, or a reshape hides it.
    Example: `Input((32,))` and vectors of 64.
    Fix: the size that the data has.
    Ignore: where the script changes the shape.
    """
    yield from _other_pictures(facts)
    feature, size = facts.input_feature(), size_of(facts.input_shape)
    has_images = facts.data is not None and any(f.is_image for f in facts.data.features.values())
    if feature is None or size is None or feature.length is None or has_images or feature.length in (1, size):
        return
    yield Finding(
        f"the model takes {size} values, and {feature.name!r} holds {feature.length}",
        locations=[*model_place(facts), Location(feature=feature.name)],
        evidence={"measured": feature.length, "expected": list(facts.input_shape or ())},
        help=[f"use an input of {feature.length} values"],
    )


def _other_pictures(facts: ModelFacts) -> Iterator[Finding]:
    """Encoded pictures that all have a size or a number of channels that the input has not."""
    pictures = facts.data.pictures if facts.data is not None else None
    shape = facts.input_shape
    if pictures is None or shape is None or len(shape) != 4 or not pictures.sizes.counts:
        return
    height, width, channels = shape[1:]
    sizes = sorted(pictures.sizes.counts, key=lambda size: -pictures.sizes.counts[size])
    if height and width and (width, height) not in pictures.sizes.counts:
        has = f"{sizes[0][1]} x {sizes[0][0]}" if len(sizes) == 1 else f"{len(sizes):,} other sizes"
        yield Finding(
            f"the model takes pictures of {height} x {width}, but the data holds pictures of {has}",
            severity="warning" if len(sizes) == 1 else "info",  # pictures of many sizes are resized in any case
            confidence="likely",
            locations=model_place(facts),
            evidence={"measured": [f"{h} x {w}" for w, h in sizes[:5]], "expected": f"{height} x {width}"},
            help=[f"resize them: bushel build SOURCE OUT --resize {height}x{width}, or tf.image.resize"],
        )
    kinds = {{"L": 1, "1": 1, "I;16": 1, "RGBA": 4, "CMYK": 4}.get(mode, 3) for mode in pictures.modes.counts}
    if channels in (1, 3, 4) and kinds == {1 if channels != 1 else 3}:
        has = "grey" if channels != 1 else "in colour"
        yield Finding(
            f"the model takes pictures of {channels} {'channel' if channels == 1 else 'channels'}, and all are {has}",
            severity="warning",
            confidence="likely",
            locations=model_place(facts),
            evidence={"measured": sorted(kinds), "expected": channels},
            help=[f"decode them with channels={channels}, or change the input"],
        )


@rule("MDL005", "normalisation-not-adapted", needs="model")
def normalisation_not_adapted(facts: ModelFacts) -> Iterator[Finding]:
    """A Normalization layer without statistics.

    Why: mean 0 and variance 1 change nothing.
    Example: `keras.layers.Normalization()` and no `adapt`.
    Fix: `layer.adapt(train_x)` before training.
    Ignore: where the data really has mean 0 and variance 1.
    """
    for layer in facts.layers:
        if type(layer).__name__ == "Normalization" and getattr(layer, "input_mean", None) is None:
            mean = np.asarray(getattr(layer, "adapt_mean", getattr(layer, "mean", 0.0)))
            if not np.any(mean):
                yield Finding(
                    f"layer {layer.name!r} was never adapted",
                    locations=model_place(facts),
                    evidence={"measured": "mean 0, variance 1"},
                    help=["call adapt() with the train split before training"],
                )


@rule("MDL006", "batch-norm-on-batches-of-one", needs="model")
def batch_norm_on_batches_of_one(facts: ModelFacts) -> Iterator[Finding]:
    """BatchNormalization and a batch size of 1.

    Why: train accuracy 0.88, validation 0.54 on the same data.
    Example: `--batch-size 1` for large images.
    Fix: a larger batch, or GroupNormalization.
    Ignore: where the layers are frozen.
    """
    has = any(type(layer).__name__ == "BatchNormalization" for layer in facts.layers)
    if has and facts.data is not None and facts.data.plan.batch_size == 1:
        yield Finding("the model normalises by batch, and a batch is one record", locations=model_place(facts),
                      help=["use a larger batch, or GroupNormalization"])  # fmt: skip


@rule("MDL007", "padding-not-masked", severity="warning", needs="model")
def padding_not_masked(facts: ModelFacts) -> Iterator[Finding]:
    """Padded sequences and an Embedding without `mask_zero`.

    Why: padding is counted as words, and as right answers: a tagger of "99 %".
    Example: `Embedding(1000, 64)` over sequences padded with 0.
    Fix: `Embedding(..., mask_zero=True)`, or sample weights.
    Ignore: where the model masks in another way.
    """
    padded = {name: seen for name, seen in (facts.data.tokens if facts.data else {}).items() if seen["padded"]}
    for layer in facts.layers:
        if type(layer).__name__ == "Embedding" and not layer.mask_zero and padded:
            name, seen = next(iter(padded.items()))
            yield Finding(
                f"{name!r} is padded with 0 in {seen['padded']:,} records, and {layer.name!r} does not mask it",
                confidence="likely",
                locations=model_place(facts),
                help=["use mask_zero=True"],
            )


@rule("MDL008", "nothing-to-train", needs="model")
def nothing_to_train(facts: ModelFacts) -> Iterator[Finding]:
    """A model without a weight that training can change.

    Why: every epoch ends where it began, and nothing says so.
    Example: `model.trainable = False` for the backbone, called on the whole model.
    Fix: freeze the backbone alone, and compile again: `backbone.trainable = False; model.compile(...)`.
    Ignore: for a model that is only evaluated.
    """
    weights = getattr(facts.model, "weights", None)
    if weights and not getattr(facts.model, "trainable_weights", weights):
        yield Finding(
            f"all {len(weights):,} weights of the model are frozen",
            severity="error" if facts.loss is not None else "warning",
            locations=model_place(facts),
            evidence={"measured": 0, "expected": "at least one trainable weight"},
            help=["set trainable = True where weights are to be learned, and compile again"],
        )
