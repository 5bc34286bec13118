"""The loop of a linear model, which is solved for one penalty after the other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bushel.feeding.preparation import Target, arrange, probabilities
from bushel.keras import as_array, as_tensors
from bushel.training.inputs.splits import row_batches
from bushel.training.linear_models import Rows, join_rows, one_thread, penalty_of, solve
from bushel.training.loop.loop import Training, most_rows, signed
from bushel.training.predictions import Predictions
from bushel.training.verdict.metrics import metrics

__all__ = ["Solving"]

_DENSE_WIDTH = 4096  # values of a row to count: wider rows are mostly 0


@dataclass
class Solving(Training):
    """A run of a linear model. An epoch solves it for one penalty, the strongest first, and starts from the last."""

    smoothed: ClassVar[int] = 1  # what is solved does not rise and fall by chance

    def run(self) -> None:
        """Try penalties until the last epoch, or until the loss of the validation split does not improve."""
        setup, begun = self.setup, time.perf_counter()
        with one_thread():
            rows, labels = self._features()
            self._add_seconds(reading=time.perf_counter() - begun)
            while not self.state.is_over and self.state.epoch < setup.epochs:
                self._solve(rows, labels)
        self.state.is_over = True

    def _features(self) -> tuple[Rows, NDArray[Any]]:
        """What the head of the model is fed for the records of train, and their labels."""
        setup, labels = self.setup, []
        whole = setup.learner.model
        head = whole.get_layer("head")
        features = type(whole)(whole.input, head.input)
        width = int(head.input.shape[-1])
        most = most_rows(setup, min(width, _DENSE_WIDTH), "the linear model is")

        def pieces() -> Iterator[NDArray[Any]]:
            for arrays, found in row_batches(setup.splits.train, setup.problem, setup.options, most):
                self.watch.look(arrays)
                labels.append(found)
                yield np.asarray(as_array(features(as_tensors(arrange(arrays)), training=False)), np.float32)

        rows = join_rows(pieces())
        return rows, np.concatenate(labels)

    def _solve(self, rows: Rows, labels: NDArray[Any]) -> None:
        setup, state, begun = self.setup, self.state, time.perf_counter()
        target, head = setup.target, setup.learner.model.get_layer("head")
        y, units = _columns_of(target, labels), self._units()
        weights = np.ones(len(labels)) if setup.class_weights is None else setup.class_weights[labels]
        start = _as_columns(target, *head.get_weights())
        y = (y - units[0]) / units[1]
        found = solve(target, rows, y, weights, penalty=penalty_of(state.epoch), start=start)
        found = found[:, 1:] - found[:, :1] if target.kind == "binary" else found
        head.set_weights([found[:-1].astype(np.float32), found[-1].astype(np.float32)])
        took = time.perf_counter() - begun
        self._add_seconds(training=took)
        state.step += 1
        scores = rows @ found[:-1] + found[-1]
        answers = scores * units[1] + units[0] if target.kind == "regression" else scores
        shares = probabilities(target.kind, answers, "numbers" if target.kind == "regression" else "logits")
        measured = metrics(target, Predictions.of(target, labels, shares))
        kept = {name: value * len(labels) for name, value in measured.items() if name in ("loss", "accuracy", "mae")}
        state.sums = {"rows": float(len(labels)), "steps": 1.0, **kept}
        self._validate(len(labels) / max(took, 1e-9), 0.0)

    def _units(self) -> tuple[float, float]:
        """What the numbers of a regression are moved and divided by before they are learned."""
        if self.setup.target.kind != "regression":
            return 0.0, 1.0
        layer = self.setup.learner.model.get_layer("units")
        return float(layer.offset), float(layer.scale)

    @property
    def is_perfect(self) -> bool:
        """A weaker penalty may still lower the loss of a perfect score."""
        return False

    def _rank(self, epoch: int) -> tuple[float, float]:
        """The loss alone: it changes smoothly with the penalty, and scores of few records do not."""
        return signed(self.state.history[epoch - 1]["val_loss"], -1), 0.0

    def _pace(self) -> dict[str, float]:
        return {"penalty": penalty_of(self.state.epoch)}


def _columns_of(target: Target, labels: NDArray[Any]) -> NDArray[np.float64]:
    """Labels with a column for each output: of two classes, too."""
    hot = np.eye(len(target.classes))[labels] if target.is_classes else labels
    return np.asarray(hot, np.float64).reshape(len(labels), -1)


def _as_columns(target: Target, kernel: NDArray[Any], bias: NDArray[Any]) -> NDArray[np.float64]:
    """The weights of a head as they are solved: a row for each input and the constant; two classes have two columns."""
    found = np.concatenate([kernel, bias[None]]).astype(np.float64)
    return np.concatenate([-found / 2, found / 2], axis=1) if target.kind == "binary" else found
