"""PIP045 to PIP050: layers, steps and calls of training."""

from __future__ import annotations

from collections.abc import Iterator

from bushel.checking.collect.facts import split_of
from bushel.checking.report.findings import Finding
from bushel.checking.rules.registry import rule
from bushel.checking.script.objects import FITTED, REMOVED_NAMES
from bushel.checking.script.trace import Trace, at_node
from bushel.checking.script.values import Dataset, Layer, layers_of

__all__: list[str] = []


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
        text = event.source.segment(event.node)
        yield at_node(
            event.node,
            event.source,
            "the model is called in a training step as if at inference",
            severity=None if behaves or not layers else "info",
            corrected=f"{text[:-1]}, training=True)",
        )


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
        text = event.source.segment(event.node)
        yield at_node(
            event.node,
            event.source,
            "a random layer is called without training=True",
            corrected=f"{text[:-1]}, training=True)",
        )


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
        yield at_node(event.node, event.source, "a layer is fitted inside map", help=["adapt it once, before the map"])


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
            yield at_node(
                event.node,
                event.source,
                f"{layer.kind} is never adapted",
                help=["call .adapt(...) with the train split first"],
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
            yield at_node(
                event.node, event.source, f"{event.info['layer'].kind} is adapted to {split_of(patterns[0])}",
                help=["adapt it to the train split"],
            )  # fmt: skip


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
        line = event.source.line(event.node.lineno)  # type: ignore[attr-defined]
        is_name = name in REMOVED_METHODS and "(" not in instead and " " not in instead
        yield at_node(
            event.node,
            event.source,
            f"Keras 3 has no {name}; use {instead}",
            corrected=line.replace(name, instead) if is_name else None,
            help=None if is_name else [f"use {instead}"],
        )
