"""Columns of what reaches a model, by whatever carries them, and layers that add nothing to it."""

from __future__ import annotations

from collections.abc import Iterator

from bushel.checking.findings import Finding, rule
from bushel.checking.program import DeliveredColumn, DeliveredData
from bushel.checking.rules.keras_expectations import SQUARED, loss_called
from bushel.checking.running.execution import Event, Execution, Spot

LARGE = 1e3  # values of a column, where weights are made for about 1
TIMES = 1e3  # as large as the usual column
LARGE_TARGET = 1e4
NORMALISING = ("Normalization", "BatchNormalization", "LayerNormalization", "Rescaling", "Embedding", "Discretization")
LINEAR = ("Dense", "Conv1D", "Conv2D", "EinsumDense")
BETWEEN = ("Dropout", "Flatten", "Reshape", "InputLayer", "Activation", "AveragePooling2D", "GlobalAveragePooling2D")


def _spots(run: Execution, delivery: DeliveredData) -> list[Spot]:
    """Where a delivery is made: the lines before the call for arrays, the links of a pipeline otherwise."""
    places: list[Spot] = [(place.file, place.line, place.function) for place in delivery.places]
    made = run.made_before(places[-1], given=True)[:3] if delivery.carrier == "arrays" and places else []
    return [*made, *places[:3]]


@rule("EXE070", "columns-of-different-scale", severity="warning", needs="execution", rank=55, silences=("EXE041",))
def columns_of_different_scale(run: Execution) -> Iterator[Finding]:
    """A column of inputs that is thousands of times as large as the others, and that nothing scales.

    Why: the largest column alone decides what the first layer gives; the others are not learned from.
    Example: a column of prices of 3,000,000,000 beside one of 0 and 1
    Fix: standardise each column by the statistics of the train split, or begin the model with an adapted Normalization.
    Ignore: where the first layers are made for the range.
    """
    for fit, delivery in run.deliveries():
        if _is_normalised(fit["model"]):
            continue
        for part in delivery.inputs:
            large = [one for one in part.columns if _is_large(one, part.columns)]
            if large and len(part.columns) > 1:
                worst = max(large, key=lambda one: one.size)
                usual = sorted(one.size for one in part.columns)[len(part.columns) // 2]
                yield run.found(
                    f"column {worst.index} of {part.name or 'the inputs'} goes from {worst.low:.3g} to "
                    f"{worst.high:.3g}, and the usual column to {usual:.3g}: nothing scales them",
                    *_spots(run, delivery),
                    help="standardise each column by the mean and deviation of the train split",
                    confidence="likely",
                    columns=[one.index for one in large][:8],
                )


def _is_large(column: DeliveredColumn, columns: list[DeliveredColumn]) -> bool:
    sizes = sorted(one.size for one in columns if one.size > 0)
    return column.size > LARGE and bool(sizes) and column.size > TIMES * sizes[0]


def _is_normalised(model: Event) -> bool:
    """Whether the model scales its inputs, or may do so in layers of the user's own."""
    ahead = model["layers"][:4]
    return any(layer["class"].startswith(NORMALISING) or not layer["builtin"] for layer in ahead) or not ahead


@rule("EXE071", "targets-not-scaled", severity="warning", needs="execution", rank=55, silences=("EXE041",))
def targets_not_scaled(run: Execution) -> Iterator[Finding]:
    """Targets of tens of thousands and more under a squared loss.

    Why: the last layer begins near 0 and moves by about the learning rate a step: it takes millions of steps to get
    there, or the gradients are so large that the loss becomes NaN.
    Example: prices of 100,000,000 under `mse`
    Fix: divide targets by their deviation, or take their logarithm; undo it for predictions.
    Ignore: where the last layer scales its outputs.
    """
    for fit, delivery in run.deliveries():
        loss = loss_called((fit["model"].get("loss") or {}).get("name") or "")
        last = fit["model"]["layers"][-1:]
        scales = any(one["class"] in ("Rescaling", "Lambda", "Normalization") or not one["builtin"] for one in last)
        columns = [one for part in delivery.targets for one in part.columns if one.size > LARGE_TARGET]
        if loss in SQUARED and columns and not scales:
            worst = max(columns, key=lambda one: one.size)
            rate = (fit["model"].get("optimizer") or {}).get("rate")
            yield run.found(
                f"targets go from {worst.low:.3g} to {worst.high:.3g} under {loss}: the model begins near 0",
                *_spots(run, delivery),
                help="divide the targets by their deviation, or take their logarithm",
                confidence="likely",
                learning_rate=rate,
            )


@rule("EXE072", "layers-without-activation", severity="warning", needs="execution", rank=70)
def layers_without_activation(run: Execution) -> Iterator[Finding]:
    """Several layers in a row, and nothing between them that is not linear.

    Why: they can be written as one layer: the model is a linear one, however deep it looks.
    Example: `Dense(64), Dense(32), Dense(10, activation="softmax")`
    Fix: `activation="relu"` in all layers but the last.
    Ignore: where a low rank is meant.
    """
    for fit in run.fits:
        layers = [one for one in fit["model"]["layers"] if not one["class"].startswith(BETWEEN)]
        is_plain = all(one["class"] in LINEAR and one["builtin"] for one in layers)
        hidden = layers[:-1]
        has_activation = any(one["class"] == "Activation" for one in fit["model"]["layers"][:-1])
        if is_plain and len(hidden) > 1 and not has_activation and all(one["activation"] == "linear" for one in hidden):
            yield run.found(
                f"{len(hidden)} layers have no activation: together they are one linear layer",
                *(one["place"] for one in hidden[:3]),
                help='give them activation="relu"',
            )
