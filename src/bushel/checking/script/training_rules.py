"""PIP040 to PIP051: what the model is fed, its loss, and how it is trained."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from bushel.checking.collect.facts import split_of
from bushel.checking.report.findings import Finding
from bushel.checking.rules.label_rules import is_classification
from bushel.checking.rules.registry import rule
from bushel.checking.script.fixes import At, Edit, at, replaced, with_argument, with_keyword
from bushel.checking.script.keras_calls import FITTED, REMOVED_NAMES
from bushel.checking.script.known_values import (
    Const,
    Dataset,
    Layer,
    Loss,
    Mapping,
    Seq,
    Tensor,
    Value,
    flat_layers,
    layers_of,
)
from bushel.checking.script.source import Source
from bushel.checking.script.trace import Event, Trace

# Applications that scale 0..255 themselves.
SCALES_ITSELF = ("EfficientNet", "MobileNetV3", "ConvNeXt", "RegNet", "ResNetRS")


@rule("PIP040", "conversion-does-nothing", needs="script")
def conversion_does_nothing(trace: Trace) -> Iterator[Finding]:
    """`convert_image_dtype` after `resize`, which has made floats of the pixels already.

    Why: from float to float it scales nothing: values stay at 0..255.
    Example: `image = tf.image.resize(image, size); image = tf.image.convert_image_dtype(image, tf.float32)`
    Fix: convert before resizing, or divide by 255.
    Ignore: never.
    Reports: https://github.com/tensorflow/tensorflow/issues/1763 https://github.com/tensorflow/tensorflow/issues/39595
    """
    for event in trace.of("no-op-conversion"):
        yield at(
            event,
            "the pixels are floats already, and stay at 0..255",
            *_scaled(event.node, event.source),
            help="divide by 255 instead",
            measured="0..255",
            expected="0..1",
        )


def _scaled(node: ast.AST, source: Source) -> list[Edit]:
    first = node.args[0] if isinstance(node, ast.Call) and node.args else None
    return [replaced(source, node, f"{source.segment(first)} / 255.0")] if first is not None else []


def _input_of(dataset: Dataset) -> Tensor | None:
    element = dataset.element
    if isinstance(element, Seq) and element.items:
        element = element.items[0]
    if isinstance(element, Mapping):
        element = next((v for v in element.items.values() if isinstance(v, Tensor) and v.form == "image"), element)
    return element if isinstance(element, Tensor) else None


@rule("PIP041", "scaled-twice", needs="script")
def scaled_twice(trace: Trace) -> Iterator[Finding]:
    """Pixels that are divided by 255 twice: in the code, or once in the code and once in the model.

    Why: the input is nearly black, and the model stays near chance. `convert_image_dtype` scales too.
    Example: `tf.image.convert_image_dtype(image, tf.float32) / 255.0`; `/ 255` before a model with `Rescaling(1/255)`.
    Fix: remove one of the two.
    Ignore: never.
    Reports: https://github.com/mindee/doctr/pull/375 https://github.com/keras-team/keras-io/issues/1549
    """
    for event in trace.of("scaled-twice"):
        left = event.node.left if isinstance(event.node, ast.BinOp) else None
        yield at(
            event,
            f"pixels of {event.info['span']} are scaled once more",
            *([replaced(event.source, event.node, event.source.segment(left))] if left is not None else []),
            help="remove one of the two",
        )
    for use, dataset in trace.used("train"):
        tensor = _input_of(dataset)
        for layer in layers_of(use.model)[:3]:
            itself = layer.kind.startswith(tuple(f"application:{name}" for name in SCALES_ITSELF))
            scale = layer.argument(0, "scale")
            is_scaling = layer.kind == "Rescaling" and isinstance(scale, Const) and scale.value < 0.02
            if tensor is not None and tensor.span in ("0..1", "-1..1") and (itself or is_scaling):
                yield at(
                    layer,
                    f"the model scales pixels, and the data is {tensor.span} already",
                    help="feed 0..255, or take this layer out",
                    measured=tensor.span,
                    expected="0..255",
                )


@rule("PIP042", "float64-images", severity="warning", needs="script")
def float64_images(trace: Trace) -> Iterator[Finding]:
    """Images as float64.

    Why: eight times the bytes of uint8 and twice those of float32, and most layers cast them back.
    Example: `tf.cast(image, tf.float64)`, `np.array(image, float).tobytes()`
    Fix: `tf.float32`; store uint8.
    Ignore: where the precision is needed.
    Reports: https://github.com/tensorflow/tensorflow/issues/42088
    """
    for event in trace.of("float64"):
        text = event.source.segment(event.node)
        fix = replaced(event.source, event.node, text.replace("float64", "float32"))
        yield at(event, "images are made float64", fix)


def _label_of(dataset: Dataset) -> Tensor | None:
    element = dataset.element
    if isinstance(element, Seq) and len(element.items) > 1 and isinstance(element.items[1], Tensor):
        return element.items[1]
    return None


def _loss_node(node: ast.AST) -> ast.AST:
    """The argument of compile() that is the loss."""
    if isinstance(node, ast.Call):
        for keyword in node.keywords:
            if keyword.arg == "loss":
                return keyword.value
        if len(node.args) > 1:
            return node.args[1]
    return node


def _losses(trace: Trace) -> Iterator[tuple[str, bool | None, ast.AST, Source, list[Layer], Tensor | None]]:
    """Each loss with the layers before it and the labels that it is given."""
    for event in trace.of("compile"):
        loss, model = event.info["loss"], event.info["model"]
        node = _loss_node(event.node)
        labels = [_label_of(d) for use, d in trace.used("train") if use.model is model]
        named = _name_of(loss)
        if named is not None:
            yield named[0], named[1], node, event.source, flat_layers(event.info["layers"]), next(iter(labels), None)
    for event in trace.of("loss-call"):
        loss, output, label = event.info["loss"], event.info["output"], event.info["label"]
        layers = list(output.layers) if isinstance(output, Tensor) else []
        named = _name_of(loss)
        if named is not None:
            yield named[0], named[1], loss.node, loss.source, layers, label if isinstance(label, Tensor) else None


def _name_of(loss: Value | None) -> tuple[str, bool | None] | None:
    if isinstance(loss, Loss):
        name = "".join(f"_{c.lower()}" if c.isupper() else c for c in loss.name).lstrip("_")
        return name, loss.from_logits
    if isinstance(loss, Const) and isinstance(loss.value, str):
        return loss.value, False
    return None


def _head(layers: list[Layer]) -> tuple[Layer | None, str | None]:
    """The last Dense layer and the activation of the output; None where it is not known."""
    activation: str | None = "none"
    for layer in reversed(layers):
        if layer.kind in ("Dropout", "Flatten", "Reshape"):
            continue
        if layer.kind == "Softmax":
            activation = "softmax"
        elif layer.kind == "Activation":
            activation = _activation(layer.argument(0, "activation"))
        elif layer.kind == "Dense":
            own = _activation(layer.argument(1, "activation"))
            return layer, own if activation == "none" else activation
        else:
            return None, None
    return None, None


def _activation(value: Value | None) -> str | None:
    if value is None or (isinstance(value, Const) and value.value is None):
        return "none"
    if isinstance(value, Const) and isinstance(value.value, str):
        return "none" if value.value == "linear" else value.value
    name = getattr(value, "name", None)
    return name.rsplit(".", maxsplit=1)[-1] if isinstance(name, str) else None


@rule("PIP043", "loss-for-other-labels", needs="script")
def loss_for_other_labels(trace: Trace) -> Iterator[Finding]:
    """A loss for one-hot labels where labels are numbers, or the other way round.

    Why: shapes differ and training stops; where broadcasting saves them, it learns nothing.
    Example: integer labels with `categorical_crossentropy`.
    Fix: `sparse_categorical_crossentropy` for integers, `categorical_crossentropy` for one-hot.
    Ignore: never.
    Reports: https://github.com/keras-team/keras/issues/7339 https://github.com/keras-team/keras/issues/7749
    """
    for name, _, node, source, _, label in _losses(trace):
        if label is None:
            continue
        text = source.segment(node)
        if name == "sparse_categorical_crossentropy" and label.form == "one_hot":
            yield at(
                At(node, source),
                "labels are one-hot, and the loss takes numbers",
                replaced(source, node, text.replace("sparse_c", "c").replace("SparseC", "C")),
            )
        elif name == "categorical_crossentropy" and label.form is None and _is_number(label):
            yield at(
                At(node, source),
                "labels are numbers, and the loss takes one-hot",
                replaced(
                    source, node, text.replace("categorical_c", "sparse_categorical_c").replace("Categ", "SparseCateg")
                ),
            )


def _keras(source: Source) -> str:
    found = source.imported_as("keras", "") or source.imported_as("tensorflow.keras", "")
    return found or f"{source.imported_as('tensorflow', 'tf')}.keras"


def _is_number(label: Tensor) -> bool:
    return (label.dtype or "").startswith(("int", "uint"))


@rule("PIP044", "logits-and-probabilities", needs="script")
def logits_and_probabilities(trace: Trace) -> Iterator[Finding]:
    """A loss that expects probabilities from a model that gives logits, or logits from one that gives probabilities.

    Why: accuracy stays near chance (0.3 of 4 classes in TensorFlow's own tutorial), or learning is slow for no reason.
    Example: `Dense(10)` and `SparseCategoricalCrossentropy()`
    Fix: `from_logits=True`, or `activation="softmax"`; not both.
    Ignore: never.
    Reports: https://github.com/tensorflow/docs/pull/2102 https://github.com/keras-team/keras/issues/16906
    """
    for name, from_logits, node, source, layers, _ in _losses(trace):
        _, activation = _head(layers)
        if "crossentropy" not in name or activation is None or from_logits is None:
            continue
        if activation == "none" and not from_logits:
            title = "".join(part.title() for part in name.split("_"))
            losses = f"{_keras(source)}.losses.{title}(from_logits=True)"
            yield at(
                At(node, source),
                "the model gives logits, and the loss takes them for probabilities",
                with_keyword(source, node, "from_logits", "True")
                if isinstance(node, ast.Call)
                else replaced(source, node, losses),
                measured="no activation in the last layer",
                expected="from_logits=True",
            )
        elif activation in ("softmax", "sigmoid") and from_logits:
            yield at(
                At(node, source),
                f"the model gives probabilities ({activation}), and the loss takes them for logits",
                *([with_keyword(source, node, "from_logits", "False")] if isinstance(node, ast.Call) else []),
                help="use from_logits=False",
                measured=activation,
                expected="from_logits=False",
            )


@rule("PIP051", "head-does-not-fit-labels", needs="script")
def head_does_not_fit_labels(trace: Trace) -> Iterator[Finding]:
    """A last layer with fewer classes than the data has.

    Why: `Received a label value of 10 outside the valid range of [0, 10)`, or silence and a wrong loss on a GPU.
    Example: labels 0 to 10 and `Dense(10)`
    Fix: one unit for each class.
    Ignore: where some labels are filtered out.
    Reports: https://github.com/biarne-a/hm-two-step-reco/issues/3
    """
    data = trace.data
    if data is None or data.train is None or not is_classification(data):
        return
    classes = max(data.train.label_counts, default=-1) + 1
    for name, _, _, _, layers, label in _losses(trace):
        head, _ = _head(layers)
        units = head.argument(0, "units") if head is not None else None
        if head is None or not isinstance(units, Const) or label is None or label.feature != data.label:
            continue
        is_categorical = name in ("sparse_categorical_crossentropy", "categorical_crossentropy")
        if is_categorical and units.value < classes:
            yield at(
                head,
                f"the last layer has {units.value} units, and labels go up to {classes - 1}",
                with_argument(head.source, head.node, 0, "units", str(classes)),
                measured=units.value,
                expected=classes,
            )


REMOVED_METHODS = {
    "fit_generator": "fit",
    "evaluate_generator": "evaluate",
    "predict_generator": "predict",
    "predict_classes": "predict(...).argmax(axis=-1)",
    "predict_proba": "predict",
    "lr": "learning_rate",
    "decay": "a learning-rate schedule",
}


@rule("PIP045", "step-without-training", severity="warning", needs="script")
def step_without_training(trace: Trace) -> Iterator[Finding]:
    """`model(x)` inside a gradient tape without `training=True`.

    Why: Dropout and BatchNormalization then behave as at inference: no regularisation, and statistics never move.
    Example: `with tf.GradientTape() as tape: logits = model(x)`
    Fix: `model(x, training=True)`
    Ignore: for models without such layers, or frozen ones.
    Reports: https://github.com/keras-team/keras/issues/16189
    """
    for event in trace.of("step-without-training"):
        layers = [layer.kind for layer in layers_of(event.info["model"])]
        behaves = any(kind in ("Dropout", "BatchNormalization", "SpatialDropout2D", "GaussianNoise") for kind in layers)
        yield at(
            event,
            "the model is called in a training step as if at inference",
            *_in_training(event.node, event.source),
            severity=None if behaves or not layers else "info",
            help="call it with training=True",
        )


def _in_training(call: ast.AST, source: Source) -> list[Edit]:
    return [with_keyword(source, call, "training", "True")] if isinstance(call, ast.Call) else []


@rule("PIP046", "augmentation-switched-off", severity="warning", needs="script")
def augmentation_switched_off(trace: Trace) -> Iterator[Finding]:
    """A random layer of Keras called in `map` without `training=True`.

    Why: since TensorFlow 2.8 the layer may do nothing then, and nothing says so.
    Example: `ds.map(lambda x, y: (augment(x), y))`
    Fix: `augment(x, training=True)`
    Ignore: never.
    Reports: https://github.com/keras-team/keras/issues/16189 https://github.com/keras-team/keras/issues/21868
    """
    for event in trace.of("random-layer-in-map"):
        edits = _in_training(event.node, event.source)
        yield at(event, "a random layer is called without training=True", *edits, help="call it with training=True")


@rule("PIP047", "fitted-inside-map", needs="script")
def fitted_inside_map(trace: Trace) -> Iterator[Finding]:
    """`adapt` inside a function that `map` calls.

    Why: it is traced once, with a symbolic tensor, or run for each record: the vocabulary is that of one record.
    Example: `def parse(text): vectorize.adapt(text); return vectorize(text)`
    Fix: `adapt` once, on the train split, before the pipeline is built.
    Ignore: never.
    Reports: https://github.com/keras-team/keras/issues/16296
    """
    for event in trace.of("adapt-in-map"):
        yield at(event, "a layer is fitted inside map", help="adapt it once, before the map")


@rule("PIP048", "never-adapted", needs="script")
def never_adapted(trace: Trace) -> Iterator[Finding]:
    """A Normalization or vocabulary layer that is never adapted and given no statistics.

    Why: Normalization then changes nothing, and a vocabulary knows no word.
    Example: `keras.layers.Normalization()` in a model, and no `adapt`.
    Fix: `layer.adapt(train.map(lambda x, y: x))` before the model is built.
    Ignore: where its weights are loaded.
    Reports: https://github.com/keras-team/keras/issues/16296
    """
    for event in trace.of("fitted-layer"):
        layer: Layer = event.info["layer"]
        if not layer.is_adapted and not any(name in layer.keywords for name in FITTED[layer.kind]):
            yield at(
                event,
                f"{layer.kind} is never adapted",
                help="call .adapt(...) with the train split first",
            )


@rule("PIP049", "fitted-on-evaluation", severity="error", needs="script")
def fitted_on_evaluation(trace: Trace) -> Iterator[Finding]:
    """A layer that is adapted to validation or test data.

    Why: statistics of what is to be judged leak into the model, and differ from those of train.
    Example: `normalise.adapt(test)`
    Fix: adapt to the train split.
    Ignore: never.
    Reports: https://github.com/ikhlestov/vision_networks/issues/27 https://github.com/taki0112/Densenet-Tensorflow/issues/8
    """
    for event in trace.of("adapt"):
        data = event.info["data"]
        patterns = data.files.patterns if isinstance(data, Dataset) and data.files else None
        if patterns and all(split_of(pattern) in ("val", "test") for pattern in patterns):
            yield at(
                event,
                f"{event.info['layer'].kind} is adapted to {split_of(patterns[0])}",
                help="adapt it to the train split",
            )


@rule("PIP050", "removed-from-keras-3", needs="script")
def removed_from_keras_3(trace: Trace) -> Iterator[Finding]:
    """Calls and arguments that Keras 3 no longer has.

    Why: `AttributeError` or `ValueError` on the first run with a current Keras.
    Example: `model.fit_generator(...)`, `Adam(lr=0.001)`
    Fix: the name that took its place.
    Ignore: where Keras 2 is pinned.
    Reports: none collected.
    """
    for event in trace.of("removed"):
        name = event.info["name"]
        instead = REMOVED_METHODS.get(name) or REMOVED_NAMES.get(name, "")
        yield at(event, f"Keras 3 has no {name}; use {instead}", *_renamed(event, name, instead), help=f"use {instead}")


def _renamed(event: Event, name: str, instead: str) -> list[Edit]:
    """The call or keyword with the name that took the place of the old one."""
    node, source = event.node, event.source
    if name not in REMOVED_METHODS or not instead.isidentifier():
        return []
    if isinstance(node, ast.keyword):
        return [replaced(source, node, f"{instead}={source.segment(node.value)}")]
    function = node.func if isinstance(node, ast.Call) else node
    if not isinstance(function, ast.Attribute) or function.attr != name:
        return []
    return [replaced(source, function, f"{source.segment(function.value)}.{instead}")]
