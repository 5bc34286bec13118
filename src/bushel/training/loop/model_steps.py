"""One step of a model: the labels as its loss takes them, the weights, the update, and a prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.reading import Batch, Feed, Order, Split, Workers, batches
from bushel.training.inputs.inputs import Preparation, arrange, arrays_of
from bushel.training.inputs.task import Task, encode_labels
from bushel.training.loop.framework import is_tensorflow, load_tensorflow
from bushel.training.models.compiling import Compiled
from bushel.training.options import Options
from bushel.training.verdict.scores import Predictions, as_probabilities, losses_of

__all__ = ["Steps", "feature_rows", "feed_of", "label_form", "predict", "rows_of"]

Array = NDArray[Any]


def label_form(form: str, task: Task, labels: Array) -> Array:
    """Labels as a loss takes them."""
    if form == "column":
        return labels.astype(np.float32).reshape(-1, 1)
    if form == "hot" and task.is_classes:
        return np.eye(len(task.classes), dtype=np.float32)[labels]
    return labels


def feed_of(
    split: Split,
    preparation: Preparation,
    label: str,
    options: Options,
    *,
    augmentation: tuple[Any, ...] = (),
    training: bool = False,
) -> Feed:
    """Batches of a split: shuffled, augmented and without end for training, else in order and once."""
    order = Order(shuffle=options.shuffle and training, seed=options.seed, buffer=options.shuffle_buffer)
    return batches(
        split,
        batch_size=options.batch_size,
        columns=[*preparation.columns, label],
        order=order,
        transforms=[*preparation.transforms, *augmentation, *preparation.scaling],
        layout=preparation.layout,
        epochs=None if training else 1,
        drop_last=training and options.strategy is not None,  # devices take equal shares
        on_fault=options.on_fault,
        workers=Workers(threads=options.threads),
    )


class Steps:
    """What a compiled model does with batches."""

    def __init__(self, model: Any, task: Task, preparation: Preparation, compiled: Compiled, strategy: Any) -> None:
        self.model = model
        self.task = task
        self.preparation = preparation
        self.compiled = compiled
        self._strategy = strategy
        self._train: Any = self._train_plain
        self._predict: Any = self._predict_plain
        if is_tensorflow():
            self._train, self._predict = self._compile()

    def inputs(self, batch: Batch) -> Any:
        """What the model is fed."""
        return arrange(arrays_of(self.preparation.inputs, batch))

    def labels(self, batch: Batch) -> Array:
        """Codes, rows of zeros and ones, or numbers."""
        return encode_labels(self.task, batch[self.task.label])

    def train(self, x: Any, labels: Array, weights: Array | None) -> dict[str, float]:
        """One update; the loss and the metric of this batch alone."""
        y = label_form(self.compiled.form, self.task, labels)
        logs = self._train(x, y, weights)
        return {name: float(value) for name, value in logs.items()}

    def raw_outputs(self, x: Any) -> Array:
        """What the model itself gives."""
        return np.asarray(self._predict(x))

    def predict(self, x: Any) -> Array:
        """Probabilities, or numbers."""
        return as_probabilities(self.task, self.raw_outputs(x))

    def _compile(self) -> tuple[Any, Any]:
        tf = load_tensorflow()
        model, strategy = self.model, self._strategy

        def step(x: Any, y: Any, weights: Any) -> Any:
            model.reset_metrics()  # so that what comes back is of this batch
            return model.train_step((x, y) if weights is None else (x, y, weights))

        def share(x: Any, y: Any, weights: Any) -> Any:
            logs = strategy.run(step, args=(x, y, weights))
            return {name: strategy.reduce("MEAN", value, axis=None) for name, value in logs.items()}

        def spread(x: Any, y: Any, weights: Any) -> Any:
            return shared(*(_per_replica(tf, strategy, part) for part in (x, y, weights)))

        compiled = tf.function(step, autograph=False, reduce_retracing=True)
        shared = tf.function(share, autograph=False, reduce_retracing=True)
        predict = tf.function(lambda x: model(x, training=False), autograph=False, reduce_retracing=True)
        return _of_any_size(tf, compiled) if strategy is None else spread, _of_any_size(tf, predict)

    def _train_plain(self, x: Any, y: Array, weights: Array | None) -> Any:
        self.model.reset_metrics()
        return self.model.train_on_batch(x, y, sample_weight=weights, return_dict=True)

    def _predict_plain(self, x: Any) -> Any:
        return self.model.predict_on_batch(x)


def _of_any_size(tf: Any, function: Any) -> Callable[..., Any]:
    """A function compiled for any number of rows: the smaller last batch would otherwise be compiled for itself."""
    traced: list[Any] = []

    def rows(array: Any) -> Any:
        return None if array is None else tf.TensorSpec([None, *array.shape[1:]], array.dtype)

    def call(*arrays: Any) -> Any:
        if not traced:
            traced.append(function.get_concrete_function(*tf.nest.map_structure(rows, arrays)))
        return function(*arrays)

    return call


def _per_replica(tf: Any, strategy: Any, value: Any) -> Any:
    """The rows of a batch, a share for each device."""
    if value is None:
        return None
    if isinstance(value, dict):
        return {name: _per_replica(tf, strategy, part) for name, part in value.items()}
    pieces = np.array_split(value, strategy.num_replicas_in_sync)
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.convert_to_tensor(pieces[context.replica_id_in_sync_group])
    )


def predict(steps: Steps, split: Split, options: Options) -> Predictions:
    """What the model says of every record of a split."""
    labels, outputs, rows = [], [], []
    with closing(feed_of(split, steps.preparation, steps.task.label, options)) as feed:
        for batch in feed:
            labels.append(steps.labels(batch))
            outputs.append(steps.predict(steps.inputs(batch)))
            rows.append(batch.rows)
    truth, said = np.concatenate(labels), np.concatenate(outputs)
    return Predictions(truth, said, losses_of(steps.task, truth, said), np.concatenate(rows))


def rows_of(
    split: Split, preparation: Preparation, task: Task, options: Options, *, most: int
) -> tuple[dict[str, Array], Array]:
    """At most so many rows from all over a split, as the model is fed them: each input as an array, and labels."""
    parts = list(_some(split, preparation, task, options, most, ()))
    arrays = {name: np.concatenate([x[name] for x, _ in parts])[:most] for name in preparation.names}
    return arrays, np.concatenate([labels for _, labels in parts])[:most]


def feature_rows(
    split: Split,
    preparation: Preparation,
    task: Task,
    options: Options,
    make: Callable[[dict[str, Array]], Array],
    *,
    most: int,
    augmentation: tuple[Any, ...] = (),
) -> tuple[Array, Array]:
    """The same as rows of numbers, made batch by batch: of large images not all need to be kept."""
    parts = [(make(x), labels) for x, labels in _some(split, preparation, task, options, most, augmentation)]
    return np.concatenate([x for x, _ in parts])[:most], np.concatenate([labels for _, labels in parts])[:most]


def _some(
    split: Split, preparation: Preparation, task: Task, options: Options, most: int, augmentation: tuple[Any, ...]
) -> Iterator[tuple[dict[str, Array], Array]]:
    if not split.is_sequential:
        split = split.select(np.unique(np.linspace(0, len(split) - 1, min(most, len(split))).astype(np.int64)))
    taken = 0
    with closing(feed_of(split, preparation, task.label, options, augmentation=augmentation)) as feed:
        for batch in feed:
            yield arrays_of(preparation.inputs, batch), encode_labels(task, batch[task.label])
            taken += len(batch.rows)
            if taken >= most:
                return
