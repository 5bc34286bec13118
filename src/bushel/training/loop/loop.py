"""The loop over epochs of a neural network. Other models have loops that derive from it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.feeding.preparation import arrange, encode_labels, inputs_of
from bushel.reading import Batch, Feed, Split
from bushel.training.inputs.splits import feed_of
from bushel.training.loop.framework import Logs
from bushel.training.predictions import Predictions
from bushel.training.run_folder import MODEL, State, save_checkpoint
from bushel.training.setup import Setup, unfreeze
from bushel.training.verdict.metrics import metric_words, metrics, primary
from bushel.training.verdict.verdict import Watch

__all__ = ["Progress", "Training", "most_rows", "signed"]

_PATIENCE_OF_RATE = 2  # epochs without a better loss before the schedule plateau lowers the rate
_RATE_FACTOR = 0.3
_NOISE = 0.01  # share by which a loss must fall to count as falling
_VALUES = 200_000_000  # of all rows together that trees or a linear model are fitted to


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run has come; `values` are means over the epoch so far."""

    epoch: int
    epochs: int
    step: int  # in this epoch
    steps: int
    values: dict[str, float]
    samples_per_second: float
    waiting: float  # share of the time spent waiting for data
    is_end_of_epoch: bool = False


@dataclass
class Training:
    """A run in progress: what it works with, and its state."""

    setup: Setup
    folder: Path | None  # None: nothing is kept
    watch: Watch
    logs: Logs
    state: State = field(default_factory=State)
    best: list[NDArray[Any]] | None = None
    initial: dict[str, NDArray[Any]] = field(default_factory=dict)  # trainable weights before the first step, by path
    begun: list[NDArray[Any]] = field(default_factory=list)  # all variables before the first step
    loss_error: float = 0.0  # the standard error of the last loss of the validation split
    tell: Callable[[Progress], None] = lambda _: None
    last: tuple[Any, NDArray[Any]] | None = None  # the last batch: its inputs and labels
    smoothed: ClassVar[int] = 75  # steps over which scores of epochs are averaged before the best is chosen

    def run(self) -> None:
        """Train until the last epoch, early stopping, or a loss that is not a number."""
        setup = self.setup
        feed = feed_of(setup.splits.train, setup.problem, setup.options, augmentation=setup.augmentation, training=True)
        with closing(feed):
            if self.state.feed:
                feed.restore(self.state.feed)
            iterator = iter(feed)
            while not self.state.is_over and self.state.epoch < setup.epochs:
                self._epoch(feed, iterator)
        self.state.is_over = True

    @property
    def moved(self) -> float | None:
        """How far training moved the weights: the largest relative change of a kernel.

        Embeddings start near 0, so their change says nothing.
        """
        found = []
        for variable in self.setup.learner.model.trainable_variables:
            old = self.initial.get(variable.path, np.zeros(0))
            if old.ndim > 1 and np.any(old) and not variable.path.endswith("embeddings"):
                found.append(float(np.linalg.norm(np.asarray(variable) - old) / np.linalg.norm(old)))
        return max(found, default=None)

    def use_best(self) -> None:
        """Give the model the weights of its best epoch."""
        if self.best is not None:
            self.setup.learner.model.set_weights(self.best)

    @contextmanager
    def best_weights(self) -> Iterator[None]:
        """Use the weights of the best epoch for a while."""
        held = self.setup.learner.model.get_weights()
        self.use_best()
        yield
        self.setup.learner.model.set_weights(held)

    def save_model(self) -> None:
        """Write the model into the run's folder."""
        assert self.folder is not None
        self.setup.learner.model.save(self.folder / MODEL)

    def predict(self, split: Split) -> Predictions:
        """What the model predicts for every record of a split."""
        return self.setup.learner.predictor.over(feed_of(split, self.setup.problem, self.setup.options))

    def predict_best(self, split: Split) -> Predictions:
        """The same with the weights of the best epoch."""
        with self.best_weights():
            return self.predict(split)

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
            if self.setup.options.checkpoint_every and state.step % self.setup.options.checkpoint_every == 0:
                self.checkpoint()
            now = time.perf_counter()
            took = max(now - begun, 1e-9)
            waiting = (feed.report().waited - waited) / took
            self.tell(self._progress(_means(state.sums), rows / took, waiting, steps=total))
        took, waiting = time.perf_counter() - begun, feed.report().waited - waited
        self._add_seconds(training=took - waiting, waiting=waiting)
        self.watch.end_of_epoch(feed.report())
        if is_broken:
            state.stopped = f"the loss is not a number at step {state.step:,}"
            state.is_over = True
            return
        self._validate(rows / max(took, 1e-9), waiting / max(took, 1e-9))

    def _progress(self, values: dict[str, float], rate: float, waiting: float, *, steps: int | None = None) -> Progress:
        """The progress of the run; without `steps`, at the end of an epoch."""
        done = int(self.state.sums["steps"])
        return Progress(
            epoch=self.state.epoch + 1,
            epochs=self.setup.epochs,
            step=done,
            steps=steps or done,
            values=values,
            samples_per_second=rate,
            waiting=waiting,
            is_end_of_epoch=steps is None,
        )

    def _step(self, batch: Batch) -> dict[str, float]:
        setup, target = self.setup, self.setup.target
        x = arrange(inputs_of(setup.problem.preparation, batch))
        labels = encode_labels(target, batch[target.label])
        weights = None if setup.class_weights is None else setup.class_weights[labels]
        if batch.real is not None:
            real = batch.real.astype(np.float32)
            weights = real if weights is None else weights * real
        values = setup.learner.train(x, labels, weights)
        self.last = (x, labels)
        state = self.state
        state.step += 1
        count = float(len(labels))
        sums = {name: state.sums.get(name, 0.0) + value * count for name, value in values.items()}
        state.sums = {**sums, "rows": state.sums.get("rows", 0.0) + count, "steps": state.sums.get("steps", 0.0) + 1}
        self.watch.step(state.step, values["loss"], x, labels)
        self.logs.step(state.step, values)
        return values

    def _validate(self, rate: float, waiting: float) -> None:
        """Measure on the validation split, keep the best, and decide whether to continue."""
        state, begun = self.state, time.perf_counter()
        found = self.predict(self.setup.splits.val)
        measured = metrics(self.setup.target, found)
        if self.setup.class_weights is not None:  # as in training
            weights = self.setup.class_weights[found.labels]
            measured["loss"] = float(np.average(found.losses, weights=weights if weights.any() else None))
        self.watch.validated(found)
        self.loss_error = float(found.losses.std() / math.sqrt(max(1, len(found))))
        row = {"epoch": state.epoch + 1, "step": state.step, **_means(state.sums)}
        row |= {f"val_{name}": value for name, value in measured.items()}
        row |= {**self._pace(), "samples_per_second": rate, "waiting": waiting}
        if (norm := self._gradient_norm()) is not None:
            row["gradient_norm"] = norm
        state.history.append(row)
        self.logs.epoch(state.step, row)
        self._add_seconds(validation=time.perf_counter() - begun)
        self._keep_best()
        values = {**_means(state.sums), **{f"val_{name}": value for name, value in measured.items()}}
        self.tell(self._progress(values, rate, waiting))
        state.epoch += 1
        state.sums = {}
        is_head_done = state.is_over or state.epoch >= state.frozen_epochs
        if self.setup.learner.frozen and is_head_done and state.epoch < self.setup.epochs:
            self._unfreeze()
        state.is_over = state.is_over or state.epoch >= self.setup.epochs
        self.checkpoint()

    def _keep_best(self) -> None:
        """Keep the best epoch, and decide whether to go on."""
        state, row = self.state, self.state.history[-1]
        loss = row["val_loss"]
        is_best = state.best_epoch == 0 or self._rank(len(state.history)) > self._rank(state.best_epoch)
        is_lower = state.best_loss is None or loss < state.best_loss
        if is_lower:
            state.best_loss, state.lowest_epoch = loss, state.epoch + 1
        if is_best:
            state.best_epoch = state.epoch + 1
            self._keep_weights()
        if self.setup.options.early_stopping is not None and self.is_perfect:
            score = metric_words(primary(self.setup.target).name)
            state.stopped = f"the {score} of the validation split is perfect; the best was epoch {state.best_epoch}"
            state.is_over = True
            return
        if is_best or is_lower:
            state.stale = 0
            return
        state.stale += 1
        if self.setup.options.schedule == "plateau" and state.stale % _PATIENCE_OF_RATE == 0:
            self.setup.learner.model.optimizer.learning_rate.assign(self._rate() * _RATE_FACTOR)
        patience = self.setup.options.early_stopping
        if patience is not None and state.stale >= patience and not self._is_improving(patience):
            score = metric_words(primary(self.setup.target).name)
            no_better = f"no better {score} or loss of the validation split in {state.stale} epochs"
            state.stopped = f"{no_better}; the best was epoch {state.best_epoch}"
            state.is_over = True

    def _is_improving(self, patience: int) -> bool:
        """Whether the loss of train still falls by more than noise, and that of the validation split has not risen.

        Some models stand still on the validation split for long before they find what they learn of train.
        """
        half = max(2, patience // 2)
        losses = [float(row["loss"]) for row in self.state.history[-2 * half :]]
        if len(losses) < 2 * half or self.state.best_loss is None:
            return False
        before, after = np.array(losses[:half]), np.array(losses[half:])
        noise = math.sqrt((before.var(ddof=1) + after.var(ddof=1)) / half)
        is_falling = before.mean() - after.mean() > max(2 * noise, _NOISE * abs(float(before.mean())))
        recent = float(np.mean([row["val_loss"] for row in self.state.history[-half:]]))
        return bool(is_falling and recent <= self.state.best_loss + self.loss_error)

    @property
    def is_perfect(self) -> bool:
        """Whether the score of classes could not be better, over all epochs of which scores are averaged."""
        rows, target = self._recent(len(self.state.history)), self.setup.target
        name = f"val_{primary(target).name}"
        return target.kind != "regression" and len(rows) >= self._window and all(row[name] == 1 for row in rows)

    @property
    def ended_perfect(self) -> bool:
        """Whether the last epoch classified every record of the validation split: more epochs cannot score better."""
        target = self.setup.target
        return target.kind != "regression" and self.state.history[-1][f"val_{primary(target).name}"] == 1

    @property
    def _window(self) -> int:
        """Of how many epochs scores are averaged."""
        return max(1, self.smoothed // max(1, int(self.state.history[0]["step"])))

    def _recent(self, epoch: int) -> list[dict[str, Any]]:
        return self.state.history[max(0, epoch - self._window) : epoch]

    def _unfreeze(self) -> None:
        """Go on from the best head, with all layers."""
        self.use_best()
        unfreeze(self.setup)
        self.state.is_unfrozen, self.state.is_over = True, False
        self.state.stopped, self.state.stale = None, 0

    def _rank(self, epoch: int) -> tuple[float, float]:
        """The score of the verdict, then the loss; more is better, and what is not a number comes last.

        Of small sets the score is the mean over some epochs: of a few records, the best of many is luck. If the verdict
        is measured on the same records, the loss comes first: the best of many scores is partly luck then, too.
        """
        rows, score = self._recent(epoch), primary(self.setup.target)
        scores = [signed(row[f"val_{score.name}"], 1 if score.is_more_better else -1) for row in rows]
        first, second = sum(scores) / len(scores), signed(rows[-1]["val_loss"], -1)
        return (first, second) if self.setup.splits.test is not None else (second, scores[-1])

    def _keep_weights(self) -> None:
        self.best = [np.array(weight) for weight in self.setup.learner.model.get_weights()]

    def _gradient_norm(self) -> float | None:
        """The norm of the gradient of all weights for the last batch, without dropout."""
        found = None if self.last is None else self.setup.learner.gradients(*self.last)
        return None if found is None else math.sqrt(sum(norm**2 for norm in found.values() if norm is not None))

    def _rate(self) -> float:
        return float(np.asarray(self.setup.learner.model.optimizer.learning_rate))

    def _pace(self) -> dict[str, float]:
        """How far the steps of this epoch went, for the history."""
        return {"learning_rate": self._rate()}

    def checkpoint(self) -> None:
        """Write what is needed to continue from here."""
        if self.folder is None:
            return
        begun = time.perf_counter()
        self.state.watched = self.watch.to_json()
        save_checkpoint(self.folder, self.setup.learner.model, self.state, self.best)
        self._add_seconds(checkpoints=time.perf_counter() - begun)

    def _add_seconds(self, **parts: float) -> None:
        for name, value in parts.items():
            self.state.seconds[name] = self.state.seconds.get(name, 0.0) + value


def signed(value: float | None, sign: int) -> float:
    """A score of which more is better; a checkpoint holds None for what is not a number."""
    return -math.inf if value is None or math.isnan(value) else sign * value


def _means(sums: dict[str, float]) -> dict[str, float]:
    rows = max(sums.get("rows", 0.0), 1.0)
    return {name: value / rows for name, value in sums.items() if name not in ("rows", "steps")}


def most_rows(setup: Setup, width: int, said: str) -> int:
    """How many rows are fitted at once; a note says so if these are not all."""
    most, records = max(1, _VALUES // max(1, width)), len(setup.splits.train)
    if most < records:
        setup.notes.append(f"{said} fitted to {most:,} of the {records:,} records of train")
    return most
