"""What is noted while a model is trained, so that rules can say what is wrong with a run."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.reading import Report
from bushel.training.inputs.task import Task
from bushel.training.verdict.scores import Predictions

__all__ = ["Watch"]

Array = NDArray[Any]

_LOOKED_AT = 50  # steps at the beginning whose inputs are looked at one by one; then one in so many
_KEPT = 2000  # losses of steps


def is_same(rows: Array) -> bool:
    """Whether all rows are equal."""
    return bool((rows == rows[:1]).all())


class Watch(msgspec.Struct, kw_only=True):
    """Counts and sums of what went through the model."""

    batches: int = 0
    distinct: int = 0  # classes of each batch, summed
    losses: list[float] = []  # of steps, thinned out where there are many
    every: int = 1  # step whose loss is kept
    looked_at: int = 0
    constant: dict[str, int] = {}  # batches in which all rows of an input were the same
    low: dict[str, float] = {}
    high: dict[str, float] = {}
    deviation: dict[str, float] = {}  # sums of the standard deviations between rows
    predicted: list[int] = []  # classes that were predicted, after each epoch
    shares: list[float] = []  # of the class that was predicted most, after each epoch
    waited: float = 0.0
    seconds: float = 0.0
    slowest: str = ""
    advice: str = ""
    is_classes: bool = False

    @classmethod
    def of(cls, task: Task) -> Watch:
        """One that has seen nothing."""
        return cls(is_classes=task.is_classes)

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Watch:
        """One that goes on where another was."""
        return msgspec.convert(given, cls)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def step(self, step: int, loss: float, x: Any, labels: Array) -> None:
        """Note one batch."""
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
        """Note what the inputs of one batch are."""
        self.looked_at += 1
        for name, array in x.items() if isinstance(x, dict) else [("", x)]:
            if array.dtype.kind not in "biuf" or len(array) < 2:
                continue
            rows = np.asarray(array[:32], np.float32).reshape(min(32, len(array)), -1)[:, :4096]
            is_constant, spread = is_same(rows), float(np.nanstd(rows, axis=0).mean())
            if not np.isfinite(spread):
                continue
            self.constant[name] = self.constant.get(name, 0) + is_constant
            self.low[name] = min(self.low.get(name, np.inf), float(np.nanmin(rows)))
            self.high[name] = max(self.high.get(name, -np.inf), float(np.nanmax(rows)))
            self.deviation[name] = self.deviation.get(name, 0.0) + spread

    def validated(self, found: Predictions) -> None:
        """Note what was predicted after an epoch."""
        if self.is_classes and len(found):
            counts = np.bincount(found.outputs.argmax(axis=1))
            self.predicted.append(int((counts > 0).sum()))
            self.shares.append(float(counts.max() / counts.sum()))

    def end_of_epoch(self, report: Report) -> None:
        """Note how long the model waited for data since the run began, or was resumed."""
        self.waited, self.seconds = report.waited, report.seconds
        self.slowest, self.advice = report.slowest, report.advice
