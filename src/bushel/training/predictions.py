"""What a model predicts: one function for training, evaluation and prediction."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.feeding.preparation import OutputKind, Problem, Target, arrange, encode_labels, inputs_of, probabilities
from bushel.reading import Feed

__all__ = ["Predictions", "Predictor"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Predictions:
    """What a model predicts for each record: `outputs` are probabilities of classes, or numbers."""

    labels: Array
    outputs: Array
    losses: Array  # of each record
    rows: NDArray[np.int64]  # their numbers in the shards

    @classmethod
    def of(cls, target: Target, labels: Array, outputs: Array, rows: Array | None = None) -> Predictions:
        """Predictions with the loss of each."""
        return cls(labels, outputs, _losses(target, labels, outputs), np.arange(len(labels)) if rows is None else rows)

    def __len__(self) -> int:
        return len(self.labels)


def _losses(target: Target, labels: Array, outputs: Array) -> Array:
    """The loss of each prediction: cross-entropy, or the squared error."""
    if target.kind == "regression":
        return np.asarray(((outputs - labels) ** 2).mean(axis=1), np.float64)
    shares = np.clip(outputs.astype(np.float64), 1e-7, 1 - 1e-7)
    if target.kind == "multi_label":
        return np.asarray(-(labels * np.log(shares) + (1 - labels) * np.log(1 - shares)).mean(axis=1))
    return np.asarray(-np.log(shares[np.arange(len(labels)), labels]))


@dataclass(frozen=True)
class Predictor:
    """A model that predicts; `call` takes what the model is fed, and `gives` says what it outputs."""

    call: Callable[[Any], Any]
    problem: Problem
    gives: OutputKind

    def ask(self, x: Any) -> Array:
        """Probabilities by class, or numbers, one row per sample."""
        return self.answers(np.asarray(self.call(x)))

    def answers(self, outputs: Array) -> Array:
        """Outputs of the model as probabilities by class, or numbers."""
        return probabilities(self.problem.target.kind, outputs, self.gives)

    def over(self, feed: Feed, *, most: int | None = None) -> Predictions:
        """Predictions on the records of a feed; at least the first `most` of them, if that is given."""
        target, taken = self.problem.target, 0
        labels, outputs, rows = [], [], []
        with closing(feed):
            for batch in feed:
                labels.append(encode_labels(target, batch[target.label]))
                outputs.append(self.ask(arrange(inputs_of(self.problem.preparation, batch))))
                rows.append(batch.rows)
                taken += len(batch.rows)
                if most is not None and taken >= most:
                    break
        return Predictions.of(target, np.concatenate(labels), np.concatenate(outputs), np.concatenate(rows))
