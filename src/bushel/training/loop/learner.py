"""A compiled model that learns batch by batch, and predicts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.errors import SchemaMismatch
from bushel.feeding.preparation import Problem, Target
from bushel.printing import text_table
from bushel.tensorflow.tensors import load_tensorflow
from bushel.training.loop.framework import is_tensorflow
from bushel.training.models import Compiled
from bushel.training.predictions import Predictor

__all__ = ["Learner", "label_form"]

Array = NDArray[Any]


def label_form(form: str, target: Target, labels: Array) -> Array:
    """Labels in the form that a loss takes."""
    if form == "column":
        return labels.astype(np.float32).reshape(-1, 1)
    if form == "hot" and target.is_classes:
        return np.eye(len(target.classes), dtype=np.float32)[labels]
    return labels


def _count(variables: Sequence[Any]) -> int:
    return sum(int(np.prod(variable.shape)) for variable in variables)


def _shape_of(layer: Any) -> str:
    shape = getattr(getattr(layer, "output", None), "shape", None)
    return " x ".join("N" if size is None else str(size) for size in shape) if shape is not None else ""


class Learner:
    """A compiled model, with its steps for training and prediction."""

    frozen: tuple[Any, ...] = ()  # layers with pretrained weights, until they are trained too

    @property
    def summary(self) -> str:
        """The layers of the model and their parameters, as text."""
        rows = [
            [layer.name, type(layer).__name__, _shape_of(layer), f"{_count(layer.weights):,}"]
            for layer in getattr(self.model, "layers", [])
        ]
        trained = _count(self.model.trainable_variables)
        total = f"{_count(self.model.weights):,} parameters, {trained:,} of them trained"
        return "\n".join([*text_table(["layer", "kind", "output", "parameters"], rows), "", total])

    def __init__(
        self, model: Any, problem: Problem, compiled: Compiled, strategy: Any, frozen: tuple[Any, ...] = ()
    ) -> None:
        self.model = model
        self.problem = problem
        self.compiled = compiled
        self.strategy = strategy
        self.frozen = frozen
        self.retrace()

    def retrace(self) -> None:
        """Make the steps for the layers that are trained now, and the optimiser that the model has now."""
        train, call = _compiled_steps(self.model, self.strategy) if is_tensorflow() else _plain_steps(self.model)
        self._train = train
        self.predictor = Predictor(call, self.problem, self.compiled.gives)

    def train(self, x: Any, labels: Array, weights: Array | None) -> dict[str, float]:
        """Take one step; returns the loss and the metric of this batch only."""
        y = label_form(self.compiled.form, self.problem.target, labels)
        try:
            values = self._train(x, y, weights)
        except ValueError as error:
            if "No gradients provided" not in str(error):
                raise
            raise SchemaMismatch("no weight of the model gets a gradient of the loss", at=self.model.name) from None
        return {name: float(value) for name, value in values.items()}

    def gradients(self, x: Any, labels: Array) -> dict[str, float | None] | None:
        """The norm of the gradient of each weight for one batch, by its path; None where none reaches it.

        None where Keras does not run on TensorFlow.
        """
        if not is_tensorflow():
            return None
        tf, model = load_tensorflow(), self.model
        y = label_form(self.compiled.form, self.problem.target, labels)
        with warnings.catch_warnings(), tf.GradientTape() as tape:
            warnings.simplefilter("ignore")  # these warnings of Keras become findings
            loss = model.compute_loss(x=x, y=y, y_pred=model(x, training=False))
        found = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
        return {
            variable.path: None if gradient is None else float(tf.linalg.global_norm([gradient]))
            for variable, gradient in zip(model.trainable_variables, found, strict=True)
        }


def _plain_steps(model: Any) -> tuple[Callable[..., Any], Callable[[Any], Any]]:
    def train(x: Any, y: Array, weights: Array | None) -> Any:
        model.reset_metrics()
        return model.train_on_batch(x, y, sample_weight=weights, return_dict=True)

    return train, model.predict_on_batch


def _compiled_steps(model: Any, strategy: Any) -> tuple[Callable[..., Any], Callable[[Any], Any]]:
    tf = load_tensorflow()

    def step(x: Any, y: Any, weights: Any) -> Any:
        model.reset_metrics()  # so that the results are of this batch only
        return model.train_step((x, y) if weights is None else (x, y, weights))

    def share(x: Any, y: Any, weights: Any) -> Any:
        logs = strategy.run(step, args=(x, y, weights))
        return {name: strategy.reduce("MEAN", value, axis=None) for name, value in logs.items()}

    def spread(x: Any, y: Any, weights: Any) -> Any:
        return shared(*(_per_replica(tf, strategy, part) for part in (x, y, weights)))

    compiled = tf.function(step, autograph=False, reduce_retracing=True)
    shared = tf.function(share, autograph=False, reduce_retracing=True)
    call = tf.function(lambda x: model(x, training=False), autograph=False, reduce_retracing=True)
    return _of_any_size(tf, compiled) if strategy is None else spread, _of_any_size(tf, call)


def _of_any_size(tf: Any, function: Any) -> Callable[..., Any]:
    """A function traced for any number of rows, so that a smaller last batch needs no second trace."""
    traced: list[Any] = []

    def rows(array: Any) -> Any:
        return None if array is None else tf.TensorSpec([None, *array.shape[1:]], array.dtype)

    def call(*arrays: Any) -> Any:
        if not traced:
            traced.append(function.get_concrete_function(*tf.nest.map_structure(rows, arrays)))
        return function(*arrays)

    return call


def _per_replica(tf: Any, strategy: Any, value: Any) -> Any:
    """The rows of a batch, divided among the devices."""
    if value is None:
        return None
    if isinstance(value, dict):
        return {name: _per_replica(tf, strategy, part) for name, part in value.items()}
    pieces = np.array_split(value, strategy.num_replicas_in_sync)
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.convert_to_tensor(pieces[context.replica_id_in_sync_group])
    )
