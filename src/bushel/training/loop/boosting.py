"""The loop of gradient-boosted trees: some rounds, validation, and the best number of rounds."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bushel.feeding.trees import Trees, save_trees
from bushel.training.inputs.splits import rows_of
from bushel.training.loop.loop import Training
from bushel.training.models.trees import ROUNDS, Booster
from bushel.training.predictions import Predictions
from bushel.training.run_folder import TREES
from bushel.training.verdict.metrics import metrics

__all__ = ["Boosting"]

_VALUES = 200_000_000  # of all rows together that trees are fitted to


@dataclass
class Boosting(Training):
    """A run of trees. It takes seconds to minutes, and keeps no checkpoints."""

    best_trees: Trees | None = None

    def run(self) -> None:
        """Add rounds until the last epoch, or until neither score nor loss of the validation split improves."""
        setup, booster, begun = self.setup, self._booster, time.perf_counter()
        arrays, labels = rows_of(setup.splits.train, setup.problem, setup.options, most=self._most_rows())
        self.watch.look(arrays)
        rows = booster.begin(arrays, labels)
        self._add_seconds(reading=time.perf_counter() - begun)
        weights = None if setup.class_weights is None else setup.class_weights[labels]
        while not self.state.is_over:
            self._rounds(rows, labels, weights)
        self.state.is_over = True

    @property
    def moved(self) -> None:
        """Trees have no weights that move."""

    def use_best(self) -> None:
        """Keep the rounds up to the best epoch."""
        self._booster.model = self.best_trees

    def save_model(self) -> None:
        """Write the trees into the run's folder."""
        save_trees(self._booster.model, self.folder / TREES)

    @property
    def _booster(self) -> Booster:
        assert isinstance(self.setup.learner, Booster)
        return self.setup.learner

    def _most_rows(self) -> int:
        width = sum(int(np.prod([size or 1 for size in given.shape])) for given in self.setup.problem.inputs)
        most, records = max(1, _VALUES // max(1, width)), len(self.setup.splits.train)
        if most < records:
            self.setup.notes.append(f"the trees are fitted to {most:,} of the {records:,} records of train")
        return most

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

    def _save(self) -> None:
        """There is nothing to continue from."""
