"""The loop of gradient-boosted trees, which grow by some rounds in each epoch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bushel.feeding.trees import Trees, save_trees
from bushel.training.inputs.splits import rows_of
from bushel.training.loop.loop import Training, most_rows
from bushel.training.predictions import Predictions
from bushel.training.run_folder import TREES, save_state
from bushel.training.tree_models import ROUNDS, Booster
from bushel.training.verdict.metrics import metrics

__all__ = ["Boosting"]


@dataclass
class Boosting(Training):
    """A run of trees. It takes seconds to minutes. Its checkpoints hold no trees: the same ones grow again."""

    best_trees: Trees | None = None
    smoothed: ClassVar[int] = 1  # what trees score rises and falls little

    def run(self) -> None:
        """Add rounds until the last epoch, or until neither score nor loss of the validation split improves."""
        setup, booster, begun = self.setup, self._booster, time.perf_counter()
        width = sum(int(np.prod([size or 1 for size in given.shape])) for given in setup.problem.inputs)
        most = most_rows(setup, width, "the trees are")
        arrays, labels = rows_of(setup.splits.train, setup.problem, setup.options, most=most)
        self.watch.look(arrays)
        rows = booster.begin(arrays, labels)
        self._add_seconds(reading=time.perf_counter() - begun)
        weights = None if setup.class_weights is None else setup.class_weights[labels]
        self._grow_again(rows, labels, weights)
        while not self.state.is_over:
            self._rounds(rows, labels, weights)
        self.state.is_over = True

    def _grow_again(
        self, rows: NDArray[np.float64], labels: NDArray[np.int64], weights: NDArray[np.float32] | None
    ) -> None:
        """Come to where a resumed run stood."""
        for epoch in sorted({self.state.best_epoch, self.state.epoch} - {0}):
            self._booster.boost(rows, labels, weights, rounds=ROUNDS * epoch)
            if epoch == self.state.best_epoch:
                self._keep_weights()

    @contextmanager
    def best_weights(self) -> Iterator[None]:
        """Use the rounds up to the best epoch."""
        self.use_best()
        yield

    @property
    def moved(self) -> None:
        """Trees have no weights that move."""

    def use_best(self) -> None:
        """Keep the rounds up to the best epoch."""
        self._booster.model = self.best_trees

    def save_model(self) -> None:
        """Write the trees into the run's folder."""
        assert self.folder is not None
        save_trees(self._booster.model, self.folder / TREES)

    @property
    def _booster(self) -> Booster:
        assert isinstance(self.setup.learner, Booster)
        return self.setup.learner

    def _rounds(
        self, rows: NDArray[np.float64], labels: NDArray[np.int64], weights: NDArray[np.float32] | None
    ) -> None:
        state, booster, begun = self.state, self._booster, time.perf_counter()
        booster.boost(rows, labels, weights, rounds=ROUNDS * (state.epoch + 1))
        took = time.perf_counter() - begun
        self._add_seconds(training=took)
        state.step += ROUNDS
        state.sums = {"rows": float(len(rows)), "steps": float(ROUNDS), **self._of_train(rows, labels)}
        self._validate(len(rows) * ROUNDS / max(took, 1e-9), 0.0)

    def _of_train(self, rows: NDArray[np.float64], labels: NDArray[np.int64]) -> dict[str, float]:
        """Loss and metrics of the records that trees learn from, as sums."""
        booster, target = self._booster, self.setup.target
        outputs = booster.predictor.answers(booster.model.forest.scores(rows))
        measured = metrics(target, Predictions.of(target, labels, outputs))
        return {name: value * len(rows) for name, value in measured.items() if name in ("loss", "accuracy", "mae")}

    def _keep_weights(self) -> None:
        self.best_trees = self._booster.model

    def _rate(self) -> float:
        return self._booster.compiled.learning_rate

    def checkpoint(self) -> None:
        """Write where the run stands."""
        if self.folder is None:
            return
        self.state.watched = self.watch.to_json()
        save_state(self.folder, self.state)
