"""The loop: steps, validation, the best weights, checkpoints; each from where the state says."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.reading import Batch, Feed
from bushel.training.inputs.split_roles import Parts
from bushel.training.loop.checkpoints import State, save_checkpoint
from bushel.training.loop.logs import Logs
from bushel.training.loop.model_steps import Steps, feed_of, predict
from bushel.training.loop.watch import Watch
from bushel.training.options import Options
from bushel.training.verdict.scores import metrics

__all__ = ["Progress", "Training"]

_PATIENCE_OF_RATE = 2  # epochs without a better loss before the schedule plateau lowers the rate
_RATE_FACTOR = 0.3


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run is; `values` are of the epoch so far."""

    epoch: int
    epochs: int
    step: int  # in this epoch
    steps: int
    values: dict[str, float]
    samples_per_second: float
    waiting: float  # share of the time
    is_end_of_epoch: bool = False


@dataclass
class Training:
    """A model, its data and where it stands."""

    steps: Steps
    parts: Parts
    options: Options
    augmentation: tuple[Any, ...]
    class_weights: NDArray[np.float32] | None
    folder: Path
    watch: Watch
    logs: Logs
    state: State = field(default_factory=State)
    best: list[NDArray[Any]] | None = None
    tell: Callable[[Progress], None] = lambda _: None

    def run(self) -> None:
        """Train up to the last epoch, or until the loss is no number, or patience ends."""
        feed = feed_of(
            self.parts.train,
            self.steps.preparation,
            self.steps.task.label,
            self.options,
            augmentation=self.augmentation,
            training=True,
        )
        with closing(feed):
            if self.state.feed:
                feed.restore(self.state.feed)
            iterator = iter(feed)
            while not self.state.is_over and self.state.epoch < self.options.epochs:
                self._epoch(feed, iterator)
        self.state.is_over = True

    def _epoch(self, feed: Feed, iterator: Any) -> None:
        total, state = len(feed), self.state
        begun, waited = time.perf_counter(), feed.report().waited
        rows, is_broken = 0, False
        while feed.state()["epoch"] == state.epoch:
            batch: Batch = next(iterator)
            values = self._step(batch)
            rows += len(batch.rows)
            state.feed = feed.state()
            is_broken = not math.isfinite(values["loss"])
            if is_broken:
                break
            if self.options.checkpoint_every and state.step % self.options.checkpoint_every == 0:
                self._save()
            now = time.perf_counter()
            self.tell(
                Progress(
                    epoch=state.epoch + 1,
                    epochs=self.options.epochs,
                    step=int(state.sums["steps"]),
                    steps=total,
                    values=_means(state.sums),
                    samples_per_second=rows / max(now - begun, 1e-9),
                    waiting=(feed.report().waited - waited) / max(now - begun, 1e-9),
                )
            )
        took, waiting = time.perf_counter() - begun, feed.report().waited - waited
        self._add_seconds(training=took - waiting, waiting=waiting)
        self.watch.end_of_epoch(feed.report())
        if is_broken:
            state.stopped = f"the loss is no number at step {state.step}"
            state.is_over = True
            return
        self._validate(rows / max(took, 1e-9), waiting / max(took, 1e-9))

    def _step(self, batch: Batch) -> dict[str, float]:
        x, labels = self.steps.inputs(batch), self.steps.labels(batch)
        weights = None if self.class_weights is None else self.class_weights[labels]
        if batch.real is not None:
            real = batch.real.astype(np.float32)
            weights = real if weights is None else weights * real
        values = self.steps.train(x, labels, weights)
        state = self.state
        state.step += 1
        count = float(len(labels))
        sums = {name: state.sums.get(name, 0.0) + value * count for name, value in values.items()}
        state.sums = {**sums, "rows": state.sums.get("rows", 0.0) + count, "steps": state.sums.get("steps", 0.0) + 1}
        self.watch.step(state.step, values["loss"], x, labels)
        self.logs.step(state.step, values)
        return values

    def _validate(self, rate: float, waiting: float) -> None:
        """Measure on the validation split, keep the best, and decide whether to go on."""
        state, begun = self.state, time.perf_counter()
        found = predict(self.steps, self.parts.val, self.options)
        measured = metrics(self.steps.task, found)
        self.watch.validated(found)
        row = {"epoch": state.epoch + 1, "step": state.step, **_means(state.sums)}
        row |= {f"val_{name}": value for name, value in measured.items()}
        row |= {"learning_rate": self._rate(), "samples_per_second": rate, "waiting": waiting}
        state.history.append(row)
        self.logs.epoch(state.step, row)
        self._add_seconds(validation=time.perf_counter() - begun)
        self._keep_best(measured["loss"])
        self.tell(
            Progress(
                epoch=state.epoch + 1,
                epochs=self.options.epochs,
                step=int(state.sums["steps"]),
                steps=int(state.sums["steps"]),
                values={**_means(state.sums), **{f"val_{name}": value for name, value in measured.items()}},
                samples_per_second=rate,
                waiting=waiting,
                is_end_of_epoch=True,
            )
        )
        state.epoch += 1
        state.sums = {}
        state.is_over = state.is_over or state.epoch >= self.options.epochs
        self._save()

    def _keep_best(self, loss: float) -> None:
        state = self.state
        if state.best_loss is None or loss < state.best_loss:
            state.best_loss, state.best_epoch, state.stale = loss, state.epoch + 1, 0
            self.best = [np.array(weight) for weight in self.steps.model.get_weights()]
            return
        state.stale += 1
        if self.options.schedule == "plateau" and state.stale % _PATIENCE_OF_RATE == 0:
            optimiser = self.steps.model.optimizer
            optimiser.learning_rate.assign(self._rate() * _RATE_FACTOR)
        if self.options.early_stopping is not None and state.stale >= self.options.early_stopping:
            state.stopped = f"{state.stale} epochs without a better validation loss than that of {state.best_epoch}"
            state.is_over = True

    def _rate(self) -> float:
        return float(np.asarray(self.steps.model.optimizer.learning_rate))

    def _save(self) -> None:
        begun = time.perf_counter()
        self.state.watched = self.watch.to_json()
        save_checkpoint(self.folder, self.steps.model, self.state, self.best)
        self._add_seconds(checkpoints=time.perf_counter() - begun)

    def _add_seconds(self, **parts: float) -> None:
        for name, value in parts.items():
            self.state.seconds[name] = self.state.seconds.get(name, 0.0) + value


def _means(sums: dict[str, float]) -> dict[str, float]:
    rows = max(sums.get("rows", 0.0), 1.0)
    return {name: value / rows for name, value in sums.items() if name not in ("rows", "steps")}
