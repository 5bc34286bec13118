"""What losses, metrics and pretrained networks of Keras take, against what they are given.

Rules about saved models, about scripts that are read and about scripts that are run all judge by it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from bushel.checking.findings import Confidence, Severity

SPARSE = ("sparse_categorical_crossentropy",)
CATEGORICAL = ("categorical_crossentropy", "categorical_focal_crossentropy")
BINARY = ("binary_crossentropy", "binary_focal_crossentropy")
CROSSENTROPIES = (*SPARSE, *CATEGORICAL, *BINARY)
SQUARED = ("mean_squared_error", "mean_absolute_error", "huber", "log_cosh")
_SHORT = {"mse": "mean_squared_error", "mae": "mean_absolute_error", "logcosh": "log_cosh"}
_UNBOUNDED = ("relu", "tanh", "gelu", "elu", "selu", "leaky_relu", "softplus")
_RANGES = {"sigmoid": (0.0, 1.0), "softmax": (0.0, 1.0), "tanh": (-1.0, 1.0), "relu": (0.0, math.inf)}

# How pixels are to be scaled for the applications of Keras, by how their names begin; the longest counts.
_NETWORKS = {
    "0..255": ("efficientnet", "mobilenetv3", "convnext", "regnet", "resnetrs"),
    "-1..1": ("resnet50v2", "resnet101v2", "resnet152v2", "resnetv2", "mobilenet", "inception", "xception", "nasnet"),
    "the means of ImageNet taken off": ("vgg", "resnet"),
    "standardised": ("densenet",),
}


def network_range(name: str) -> str | None:
    """The range that an application of Keras, or the module of its `preprocess_input`, is made for."""
    plain = re.sub("[-_]", "", name.lower())
    found = [(len(start), span) for span, starts in _NETWORKS.items() for start in starts if plain.startswith(start)]
    return max(found)[1] if found else None


def loss_called(name: str) -> str:
    """One name for a loss, its class and its short form."""
    snake = re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()
    return _SHORT.get(snake, snake)


@dataclass(frozen=True)
class Pair:
    """A loss with what it is given; None is what is not known."""

    loss: str
    from_logits: bool | None = None
    activation: str | None = None  # of the output: none, softmax, sigmoid, ...
    units: int | None = None
    labels: Literal["numbers", "one_hot", "rows", "amounts"] | None = None  # class numbers, rows of 0 and 1, floats
    low: float | None = None
    high: float | None = None
    depth: int | None = None  # of one-hot rows
    empty: float = 0.0  # the share of one-hot rows that are all 0


class Misfit(NamedTuple):
    """Two of them that do not go together."""

    kind: Literal["labels", "logits", "head"]
    message: str
    help: str
    severity: Severity = "error"
    confidence: Confidence = "proven"


def misfits(pair: Pair) -> Iterator[Misfit]:
    """What does not go together, the first reason for each part."""
    for judge in (_labels, _head, _logits):
        found = judge(pair)
        if found is not None:
            yield found


def _labels(pair: Pair) -> Misfit | None:
    loss, units, labels = pair.loss, pair.units, pair.labels
    low, high = pair.low if pair.low is not None else 0, pair.high if pair.high is not None else 0
    if loss in SPARSE and labels == "one_hot":
        return Misfit("labels", f"labels are one-hot rows, but {loss} takes class numbers", f"use {CATEGORICAL[0]}")
    if loss in CATEGORICAL and labels == "numbers":
        return Misfit("labels", f"labels are class numbers, but {loss} takes one-hot rows", f"use {SPARSE[0]}")
    if loss in SPARSE and labels == "amounts" and pair.units != 1:
        message = f"labels are fractions from {low:.3g} to {high:.3g}, but {loss} takes class numbers"
        return Misfit("labels", message, "leave labels as they are: scale the inputs only")
    if loss in SQUARED and labels == "one_hot" and pair.activation == "softmax":
        message = f"classes are compared by {loss}, whose gradient through softmax vanishes where the model is wrong"
        return Misfit("labels", message, f"use {CATEGORICAL[0]}", severity="warning", confidence="likely")
    if loss in BINARY and labels == "numbers" and units is not None and units > 1:
        return Misfit("labels", f"class numbers are compared with {units} outputs under {loss}", f"use {SPARSE[0]}")
    if loss in BINARY and labels == "numbers" and units == 1 and (high > 1 or low < 0):
        help = f"use {SPARSE[0]} and one output per class" if high > 1 else "number the labels 0 and 1"
        return Misfit("labels", f"labels range from {low:g} to {high:g} under {loss}, which takes 0 and 1", help)
    if loss in BINARY and labels == "amounts" and (high > 1.05 or low < -0.05):
        message = f"targets range from {low:.3g} to {high:.3g} under {loss}, which takes 0 to 1"
        return Misfit("labels", message, "scale the targets to 0..1, or use mean_squared_error")
    if loss in BINARY and labels == "one_hot" and pair.activation == "softmax" and (units or 0) > 2:
        message = f"one class of {units} is true, but {loss} treats each output as a separate yes-or-no question"
        return Misfit("labels", message, f"use {CATEGORICAL[0]}", confidence="likely")
    if labels == "one_hot" and pair.empty and (loss in CATEGORICAL or pair.activation == "softmax"):
        message = f"{pair.empty:.0%} of the one-hot rows are all 0: there is no place for their class"
        return Misfit("labels", message, "number the classes from 0 before one_hot, with a depth for all of them")
    if labels == "rows" and (loss in CATEGORICAL or (loss in BINARY and pair.activation == "softmax")):
        message = f"rows of labels hold several classes or none, and {'softmax' if loss in BINARY else loss} takes one"
        return Misfit("labels", message, f"use sigmoid and {BINARY[0]}")
    if loss in SQUARED and labels == "numbers" and (units or 0) > 1 and 2 <= high < (units or 0):
        return Misfit("labels", f"class numbers are compared with {units} outputs under {loss}", f"use {SPARSE[0]}")
    return None


def _head(pair: Pair) -> Misfit | None:
    loss, units, labels, activation = pair.loss, pair.units, pair.labels, pair.activation
    low, high = pair.low, pair.high
    if units == 1 and activation == "softmax":
        help = "use no activation" if labels == "amounts" or loss in SQUARED else "use sigmoid"
        return Misfit("head", "softmax over one output is always 1: there is nothing to learn", help)
    if units == 1 and loss in SPARSE + CATEGORICAL:
        message = f"{loss} needs one output per class, but the last layer has 1"
        help = f"use {SQUARED[0]}" if labels == "amounts" else f"use one output per class, or {BINARY[0]}"
        return Misfit("head", message, help)
    is_known = units is not None and low is not None and high is not None
    if is_known and loss in SPARSE and labels == "numbers" and ((high or 0) >= (units or 0) or (low or 0) < 0):
        message = f"labels range from {low:g} to {high:g}, but the last layer has {units} outputs"
        return Misfit("head", message, f"give it {int(high or 0) + 1} outputs, or number the labels from 0")
    if units is not None and pair.depth is not None and pair.depth != units and loss in CATEGORICAL + BINARY:
        message = f"labels are one-hot rows of {pair.depth}, but the last layer has {units} outputs"
        return Misfit("head", message, "give both the number of classes")
    if pair.labels == "one_hot" and pair.depth is not None and high is not None and high >= pair.depth:
        message = f"labels go up to {high:g}, but one-hot rows of {pair.depth} have no place for them"
        return Misfit("head", message, f"number the labels from 0, or use a depth of {int(high) + 1}")
    if loss in CROSSENTROPIES and activation in _UNBOUNDED:
        help = "use softmax (or sigmoid for one output), or no activation and from_logits=True"
        return Misfit("head", f"the last layer ends in {activation} under {loss}", help)
    if loss in SPARSE + CATEGORICAL and activation == "sigmoid" and (units or 0) > 1:
        message = f"{units} outputs with sigmoid under {loss}, which takes probabilities that sum to 1"
        return Misfit("head", message, "use softmax", severity="warning")
    if loss in SQUARED and labels == "amounts" and activation in _RANGES and low is not None and high is not None:
        bottom, top = _RANGES[activation]
        if high > top * 1.2 or low < bottom - 0.2 * max(1.0, (high - low) / 10):
            message = f"targets range from {low:.3g} to {high:.3g}, but {activation} gives {bottom:g} to {top:g}"
            return Misfit("head", message, "use no activation for such targets")
    return None


class MetricMisfit(NamedTuple):
    """Why a metric does not measure what it seems to, and what to use."""

    message: str
    help: str


def metric_misfit(name: str, pair: Pair) -> MetricMisfit | None:
    """What is wrong with a metric for these outputs and labels."""
    metric, units = loss_called(name), pair.units or 0
    plain = 'use metrics=["accuracy"], which Keras turns into the right one'
    if metric == "accuracy" and name == "Accuracy" and pair.activation is not None:
        return MetricMisfit("Accuracy compares for equality: probabilities are never equal to a label", plain)
    if metric in ("accuracy", "acc", "categorical_accuracy") and pair.labels == "rows" and units > 1:
        message = f"{name} looks at the largest output alone, and rows of labels hold several classes or none"
        return MetricMisfit(message, "use BinaryAccuracy or AUC(multi_label=True), which judge each class")
    if metric == "categorical_accuracy" and pair.labels == "numbers" and units > 1:
        return MetricMisfit(f"{name} takes one-hot rows, but labels are class numbers", "use SparseCategoricalAccuracy")
    if metric == "sparse_categorical_accuracy" and pair.labels == "one_hot":
        return MetricMisfit(f"{name} takes class numbers, but labels are one-hot rows", "use CategoricalAccuracy")
    if metric == "binary_accuracy" and pair.labels == "one_hot" and pair.activation == "softmax" and units > 2:
        share = f"{(units - 1) / units:.0%}"
        message = f"{name} counts every 0 of a one-hot row that is right: {share} for a model that knows nothing"
        return MetricMisfit(message, "use CategoricalAccuracy")
    is_cut = metric in ("precision", "recall", "binary_accuracy", "auc", "true_positives", "false_positives")
    if is_cut and pair.activation == "none" and pair.from_logits:
        help = "use from_logits=True" if metric == "auc" else "give it a threshold of 0, or end the model in sigmoid"
        return MetricMisfit(f"{name} takes probabilities, but the model gives logits", help)
    if name in ("accuracy", "acc") and pair.loss in SQUARED and pair.labels == "amounts":
        return MetricMisfit("accuracy compares amounts for equality, and stays near 0", 'use metrics=["mae"]')
    return None


def better_direction(monitor: str) -> str | None:
    """Whether less or more is better of what a callback monitors: min or max; None where that is not known."""
    if monitor.endswith(("loss", "mae", "mse")) or "error" in monitor:
        return "min"
    return "max" if "acc" in monitor or "auc" in monitor else None


def _logits(pair: Pair) -> Misfit | None:
    if pair.loss not in CROSSENTROPIES or pair.from_logits is None:
        return None
    if pair.activation == "none" and not pair.from_logits:
        message = "the model gives logits, but the loss takes them for probabilities"
        return Misfit("logits", message, "use from_logits=True")
    if (
        pair.activation in ("softmax", "sigmoid")
        and pair.from_logits
        and not (pair.units == 1 and pair.activation == "softmax")
    ):
        message = f"the model gives probabilities ({pair.activation}), but the loss takes them for logits"
        return Misfit("logits", message, "use from_logits=False")
    return None
