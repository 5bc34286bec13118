"""PIP043, PIP044 and PIP051: losses beside outputs and labels."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from bushel.checking.report.findings import Finding
from bushel.checking.rules.label_rules import is_classification
from bushel.checking.rules.registry import rule
from bushel.checking.script.source import Source
from bushel.checking.script.trace import Trace, at_node
from bushel.checking.script.values import Const, Dataset, Layer, Loss, Seq, Tensor, Value, flat_layers

__all__: list[str] = []


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
            yield at_node(
                node, source, "labels are one-hot, and the loss takes numbers",
                corrected=text.replace("sparse_categorical", "categorical").replace("SparseCategorical", "Categorical"),
            )  # fmt: skip
        elif name == "categorical_crossentropy" and label.form is None and _is_number(label):
            yield at_node(
                node, source, "labels are numbers, and the loss takes one-hot",
                corrected=text.replace("categorical_c", "sparse_categorical_c").replace("Categ", "SparseCateg"),
            )  # fmt: skip


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
        text = source.segment(node)
        if activation == "none" and not from_logits:
            call = f"{text[:-1]}{', ' if not text.endswith('()') else ''}from_logits=True)"
            title = "".join(part.title() for part in name.split("_"))
            yield at_node(
                node,
                source,
                "the model gives logits, and the loss takes them for probabilities",
                corrected=call if isinstance(node, ast.Call) else f"keras.losses.{title}(from_logits=True)",
                measured="no activation in the last layer",
                expected="from_logits=True",
            )
        elif activation in ("softmax", "sigmoid") and from_logits:
            yield at_node(
                node,
                source,
                f"the model gives probabilities ({activation}), and the loss takes them for logits",
                corrected=text.replace("from_logits=True", "from_logits=False"),
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
            text = head.source.segment(head.node)
            yield at_node(
                head.node,
                head.source,
                f"the last layer has {units.value} units, and labels go up to {classes - 1}",
                corrected=text.replace(f"({units.value}", f"({classes}", 1),
                measured=units.value,
                expected=classes,
            )
