"""Loss, optimiser and learning rate for a model."""

from __future__ import annotations

from typing import Any

import msgspec
from numpy.typing import NDArray

from bushel.checking.rules.model_rules import look_at_model
from bushel.feeding.preparation import OutputKind, Target, output_kind
from bushel.keras import load_keras
from bushel.training.options import Options

__all__ = ["Compiled", "compile_model", "head_problem", "outputs_of"]

# The class in Keras, and its default learning rate.
_OPTIMISERS = {
    "adam": ("Adam", 1e-3),
    "adamw": ("AdamW", 1e-3),
    "nadam": ("Nadam", 1e-3),
    "lion": ("Lion", 1e-4),
    "rmsprop": ("RMSprop", 1e-3),
    "sgd": ("SGD", 1e-2),
}
_LAST_SHARE = 0.01  # the share of the learning rate at the end of a schedule


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
        optimiser=type(optimiser).__name__,
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
