"""Loss, optimiser and learning rate for a model."""

from __future__ import annotations

from typing import Any

import msgspec

from bushel.checking.rules.model_rules import look_at_model
from bushel.training.inputs.task import Task
from bushel.training.loop.framework import load_keras
from bushel.training.options import Options

__all__ = ["Compiled", "compile_model", "loss_name"]

_RATES = {"adam": 1e-3, "adamw": 1e-3, "nadam": 1e-3, "lion": 1e-4, "rmsprop": 1e-3, "sgd": 1e-2}
_CLASSES = {
    "adam": "Adam",
    "adamw": "AdamW",
    "nadam": "Nadam",
    "lion": "Lion",
    "rmsprop": "RMSprop",
    "sgd": "SGD",
}
_LAST_SHARE = 0.01  # of the learning rate that a schedule ends with


class Compiled(msgspec.Struct, frozen=True, kw_only=True):
    """What a model was compiled with, in words; `form` is how its loss takes labels."""

    loss: str
    optimiser: str
    learning_rate: float
    form: str  # codes, column, hot or numbers
    metric: str


def compile_model(model: Any, task: Task, options: Options, *, steps: int) -> Compiled:
    """Give a model what it lacks: one that is compiled keeps its loss, and its optimiser unless one is asked for."""
    keras = load_keras()
    is_compiled = getattr(model, "compiled", False) and getattr(model, "loss", None) is not None
    rate = options.learning_rate or _RATES[options.optimiser]
    keeps = is_compiled and options.learning_rate is None and options.optimiser == "adam"
    keeps = keeps and options.schedule == "constant" and not options.warmup
    loss = options.loss or (model.loss if is_compiled else _loss_of(keras, model, task))
    optimiser = model.optimizer if keeps else _optimiser(keras, options, rate, steps)
    metric = "mae" if task.kind == "regression" else "accuracy"
    model.compile(optimiser, loss, metrics=[_metric(keras, model, task)], jit_compile=False)
    return Compiled(
        loss=loss_name(model.loss),
        optimiser=type(optimiser).__name__,
        learning_rate=float(keras.ops.convert_to_numpy(optimiser.learning_rate)) if keeps else rate,
        form=_form(loss_name(model.loss), task, outputs_of(model)),
        metric=metric,
    )


def loss_name(loss: Any) -> str:
    """The name of a loss, whatever it was given as."""
    if isinstance(loss, str):
        return loss
    return str(getattr(loss, "name", None) or getattr(loss, "__name__", type(loss).__name__))


def outputs_of(model: Any) -> int | None:
    """How many numbers the model gives a record, if it says."""
    shape = getattr(model, "output_shape", None)
    return int(shape[-1]) if isinstance(shape, tuple) and len(shape) > 1 and shape[-1] else None


def _loss_of(keras: Any, model: Any, task: Task) -> Any:
    from_logits = look_at_model(model, None).activation not in ("softmax", "sigmoid")
    if task.kind == "regression":
        return keras.losses.MeanSquaredError()
    if task.kind == "multi_label" or (task.kind == "binary" and outputs_of(model) == 1):
        return keras.losses.BinaryCrossentropy(from_logits=from_logits)
    return keras.losses.SparseCategoricalCrossentropy(from_logits=from_logits)


def _form(loss: str, task: Task, outputs: int | None) -> str:
    """How a loss takes labels."""
    if task.kind == "regression":
        return "numbers"
    if task.kind == "multi_label":
        return "hot"
    if loss.startswith("sparse"):
        return "codes"
    return "column" if outputs == 1 else "hot"


def _metric(keras: Any, model: Any, task: Task) -> Any:
    if task.kind == "regression":
        return keras.metrics.MeanAbsoluteError(name="mae")
    if task.kind == "multi_label" or outputs_of(model) == 1:
        is_logits = look_at_model(model, None).activation not in ("softmax", "sigmoid")
        return keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.0 if is_logits else 0.5)
    form = _form(loss_name(model.loss) if getattr(model, "loss", None) else "sparse", task, outputs_of(model))
    kind = keras.metrics.CategoricalAccuracy if form == "hot" else keras.metrics.SparseCategoricalAccuracy
    return kind(name="accuracy")


def _optimiser(keras: Any, options: Options, rate: float, steps: int) -> Any:
    kind = getattr(keras.optimizers, _CLASSES[options.optimiser])
    more = {"momentum": 0.9} if options.optimiser == "sgd" else {}
    return kind(_rate(keras, options, rate, max(1, steps)), **more)


def _rate(keras: Any, options: Options, rate: float, steps: int) -> Any:
    """A number, or a function of the step: so a run that is resumed goes on at the right rate."""
    schedules = keras.optimizers.schedules
    warm = round(options.warmup * steps)
    if options.schedule == "cosine":
        if not warm:
            return schedules.CosineDecay(rate, steps, alpha=_LAST_SHARE)
        return schedules.CosineDecay(0.0, steps - warm, alpha=_LAST_SHARE, warmup_target=rate, warmup_steps=warm)
    if options.schedule == "exponential":
        return schedules.ExponentialDecay(rate, steps, _LAST_SHARE)
    if warm:
        return schedules.CosineDecay(0.0, 10**9, alpha=1.0, warmup_target=rate, warmup_steps=warm)
    return rate
