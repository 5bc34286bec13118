"""What is recorded during training, and its form as facts for the rules about runs."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.checking.rules.model_rules import ModelFacts
from bushel.checking.rules.run_rules import RunFacts
from bushel.feeding.preparation import Problem, Target
from bushel.reading import Report
from bushel.training.options import Options
from bushel.training.predictions import Predictions

__all__ = ["Watch", "facts_so_far"]

Array = NDArray[Any]

_LOOKED_AT = 50  # first steps whose inputs are all looked at; after that, one in this many
_KEPT = 2000  # losses of steps


class Watch(msgspec.Struct, kw_only=True):
    """Counts and sums of what passed through the model."""

    batches: int = 0
    distinct: int = 0  # classes of each batch, summed
    losses: list[float] = []  # of steps, thinned out if there are many
    every: int = 1  # keep the loss of every so many steps
    looked_at: int = 0
    constant: dict[str, int] = {}  # batches in which all rows of an input were the same
    low: dict[str, float] = {}
    high: dict[str, float] = {}
    deviation: dict[str, float] = {}  # sums of the standard deviations between rows
    predicted: list[int] = []  # number of classes that were predicted, after each epoch
    shares: list[float] = []  # share of the most predicted class, after each epoch
    waited: float = 0.0
    seconds: float = 0.0
    slowest: str = ""
    advice: str = ""
    is_classes: bool = False

    @classmethod
    def of(cls, target: Target) -> Watch:
        """A watch that has seen nothing yet."""
        return cls(is_classes=target.is_classes)

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Watch:
        """A watch that continues from a checkpoint."""
        return msgspec.convert(given, cls)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def step(self, step: int, loss: float, x: Any, labels: Array) -> None:
        """Record one batch."""
        self.batches += 1
        if self.is_classes:
            self.distinct += len(np.unique(labels))
        if step % self.every == 0:
            self.losses.append(loss)
            if len(self.losses) >= _KEPT:
                self.losses, self.every = self.losses[1::2], 2 * self.every
        if self.batches <= _LOOKED_AT or self.batches % _LOOKED_AT == 0:
            self.look(x)

    def look(self, x: Any) -> None:
        """Record the range and spread of the inputs of one batch."""
        self.looked_at += 1
        for name, array in x.items() if isinstance(x, dict) else [("", x)]:
            if array.dtype.kind not in "biuf" or len(array) < 2:
                continue
            rows = np.asarray(array[:32], np.float32).reshape(min(32, len(array)), -1)[:, :4096]
            is_constant, spread = bool((rows == rows[:1]).all()), float(np.nanstd(rows, axis=0).mean())
            if not np.isfinite(spread):
                continue
            self.constant[name] = self.constant.get(name, 0) + is_constant
            self.low[name] = min(self.low.get(name, np.inf), float(np.nanmin(rows)))
            self.high[name] = max(self.high.get(name, -np.inf), float(np.nanmax(rows)))
            self.deviation[name] = self.deviation.get(name, 0.0) + spread

    def validated(self, found: Predictions) -> None:
        """Record what was predicted after an epoch."""
        if self.is_classes and len(found):
            counts = np.bincount(found.outputs.argmax(axis=1))
            self.predicted.append(int((counts > 0).sum()))
            self.shares.append(float(counts.max() / counts.sum()))

    def end_of_epoch(self, report: Report) -> None:
        """Record how long the model waited for data since the run started or resumed."""
        self.waited, self.seconds = report.waited, report.seconds
        self.slowest, self.advice = report.slowest, report.advice


_NORMALISING = ("Rescaling", "Normalization", "BatchNormalization", "LayerNormalization", "GroupNormalization")


def facts_so_far(problem: Problem, options: Options, model: ModelFacts, watch: Watch) -> RunFacts:
    """What is known of a run before the verdict."""
    names, target = problem.preparation.names, problem.target
    only = names[0] if len(names) == 1 else ""
    layers = [type(layer).__name__ for layer in model.layers[:6]]
    spans = {name or only: (watch.low[name], watch.high[name]) for name in watch.low}
    return RunFacts(
        task=target.kind,
        label=target.label,
        classes=target.classes if target.is_classes else [],
        counts=target.counts if target.is_classes else [],
        batch_size=options.batch_size,
        batches=watch.batches,
        classes_per_batch=watch.distinct / watch.batches if watch.is_classes and watch.batches else None,
        losses=watch.losses,
        guess_loss=_guess_loss(target),
        looked_at=watch.looked_at,
        constant={name or only: count for name, count in watch.constant.items()},
        spans=spans if all(given.kind != "tokens" for given in problem.inputs) else {},
        normalises=options.is_trees or any(name in _NORMALISING for name in layers),
        predicted=watch.predicted[-1] if watch.predicted else None,
        share=watch.shares[-1] if watch.shares else 0.0,
        waiting=watch.waited / watch.seconds if watch.seconds else 0.0,
        seconds=watch.seconds,
        slowest=watch.slowest,
        advice=watch.advice,
        augmentation=options.augment,
    )


def _guess_loss(target: Target) -> float | None:
    """The loss of always predicting the shares of the classes."""
    total = sum(target.counts)
    if not target.is_classes or not total:
        return None
    shares = np.array([count / total for count in target.counts if count])
    return float(-(shares * np.log(shares)).sum())
