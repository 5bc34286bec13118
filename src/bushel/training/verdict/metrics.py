"""How good predictions are: each metric in one place, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel.feeding.preparation import Target, TargetKind
from bushel.training.predictions import Predictions

__all__ = [
    "METRICS",
    "Interval",
    "Metric",
    "bootstrap",
    "cell",
    "class_table",
    "confusion",
    "measure_of",
    "metric_table",
    "metric_words",
    "metrics",
    "primary",
    "wilson",
]

Array: TypeAlias = NDArray[Any]
Measure: TypeAlias = Callable[[Array], float]  # of some of the records, by number

_MOST_ROWS = 20_000  # records to draw from; more hardly change the interval
_Z = 1.959964  # of 95 %
_IMBALANCED = 1.5  # times the share of a balanced class, beyond which accuracy is misleading


def _absolute_error(labels: Array, outputs: Array) -> Measure:
    errors = np.abs(outputs - labels).mean(axis=1)
    return lambda drawn: float(errors[drawn].mean())


def _root_of_squares(labels: Array, outputs: Array) -> Measure:
    squares = ((outputs - labels) ** 2).mean(axis=1)
    return lambda drawn: float(np.sqrt(squares[drawn].mean()))


def _explained(labels: Array, outputs: Array) -> Measure:
    def share(drawn: Array) -> float:
        seen = labels[drawn]
        spread = float(((seen - seen.mean(axis=0)) ** 2).mean())
        return 1 - float(((outputs[drawn] - seen) ** 2).mean()) / spread if spread else math.nan

    return share


def _hits(labels: Array, outputs: Array) -> Array:
    if labels.ndim > 1:
        return np.asarray(((outputs > 0.5) == (labels > 0.5)).mean(axis=1))
    return np.asarray(outputs.argmax(axis=1) == labels, np.float64)


def _accuracy(labels: Array, outputs: Array) -> Measure:
    hits = _hits(labels, outputs)
    return lambda drawn: float(hits[drawn].mean())


def _mean_recall(labels: Array, outputs: Array) -> Measure:
    hits = _hits(labels, outputs)

    def recall(drawn: Array) -> float:
        counts = np.bincount(labels[drawn])
        right = np.bincount(labels[drawn], hits[drawn])
        return float((right[counts > 0] / counts[counts > 0]).mean())

    return recall


def _f1(labels: Array, outputs: Array) -> Measure:
    """Over all labels together if a record may have several, else the mean over the classes that occur."""
    truth, chosen = _one_hot(labels, outputs)

    def f1(drawn: Array) -> float:
        axis = None if labels.ndim > 1 else 0
        right, records, taken = (part[drawn].sum(axis=axis) for part in (truth & chosen, truth, chosen))
        found = 2 * right / np.maximum(records + taken, 1)
        return float(found) if axis is None else float(found[records > 0].mean()) if records.any() else math.nan

    return f1


def _one_hot(labels: Array, outputs: Array) -> tuple[Array, Array]:
    """Labels and predictions, with a column for each class."""
    if labels.ndim > 1:
        return labels > 0.5, outputs > 0.5
    classes = np.arange(outputs.shape[1])
    return labels[:, None] == classes, outputs.argmax(axis=1)[:, None] == classes


def _area(labels: Array, outputs: Array) -> Measure:
    """The area under the ROC curve; for several labels, the mean over those that have both values."""
    if labels.ndim == 1:
        return lambda drawn: auc(labels[drawn], outputs[drawn, 1])

    def mean(drawn: Array) -> float:
        found = [auc(labels[drawn, number], outputs[drawn, number]) for number in range(labels.shape[1])]
        known = [value for value in found if not math.isnan(value)]
        return float(np.mean(known)) if known else 0.5

    return mean


def auc(labels: Array, scores: Array) -> float:
    """How often a positive is ranked above a negative; ties count half."""
    positives = labels > 0.5
    count, others = int(positives.sum()), int((~positives).sum())
    if not count or not others:
        return math.nan
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return float((ranks[positives].sum() - count * (count + 1) / 2) / (count * others))


def _top_5(labels: Array, outputs: Array) -> Measure:
    best = np.argsort(-outputs, axis=1, kind="stable")[:, :5]
    hits = (best == labels[:, None]).any(axis=1)
    return lambda drawn: float(hits[drawn].mean())


_CLASSES: tuple[TargetKind, ...] = ("binary", "multi_class")


@dataclass(frozen=True)
class Metric:
    """A metric: which tasks it is for, how it is computed, which direction is better, and how it is shown."""

    name: str
    kinds: tuple[TargetKind, ...]
    of: Callable[[Array, Array], Measure]  # from labels and outputs
    is_more_better: bool = True
    words: str = ""  # if they differ from the name
    least_classes: int = 0
    draws: int = 400  # for an interval
    is_followed: bool = False  # whether it is shown after each epoch


METRICS = (
    Metric(
        "mae", ("regression",), _absolute_error, is_more_better=False, words="mean absolute error", is_followed=True
    ),
    Metric("rmse", ("regression",), _root_of_squares, is_more_better=False),
    Metric("r2", ("regression",), _explained, words="R²", is_followed=True),
    Metric("accuracy", (*_CLASSES, "multi_label"), _accuracy, is_followed=True),
    Metric("balanced_accuracy", _CLASSES, _mean_recall, is_followed=True),
    Metric("f1", (*_CLASSES, "multi_label"), _f1, words="F1"),
    Metric("auc", ("binary", "multi_label"), _area, words="AUC", draws=100, is_followed=True),
    Metric("top_5", ("multi_class",), _top_5, words="top 5", least_classes=6),
)
_BY_NAME = {metric.name: metric for metric in METRICS}


def metric_words(name: str) -> str:
    """The name of a metric, as text."""
    known = _BY_NAME.get(name)
    return (known.words if known else "") or name.replace("_", " ")


def cell(value: Any) -> str:
    """One value of a table, as text."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(cell(item) for item in value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def metric_table(metrics: Mapping[str, Mapping[str, float]]) -> tuple[list[str], list[list[str]]]:
    """The metrics of each split: the header of a table, and a row per split."""
    names = list(dict.fromkeys(name for values in metrics.values() for name in values))
    rows = [[split, *(cell(values.get(name)) for name in names)] for split, values in metrics.items()]
    return ["split", *map(metric_words, names)], rows


def primary(target: Target) -> Metric:
    """The metric that the verdict is about."""
    if target.kind == "regression":
        return _BY_NAME["mae"]
    if target.kind == "multi_label":
        return _BY_NAME["auc"]
    share = max(target.counts, default=0) / (sum(target.counts) or 1)
    return _BY_NAME["balanced_accuracy" if share > _IMBALANCED / max(2, len(target.classes)) else "accuracy"]


def measure_of(target: Target, labels: Array, outputs: Array) -> Measure:
    """The primary metric, for any draw of records."""
    return primary(target).of(labels, outputs)


def metrics(target: Target, found: Predictions) -> dict[str, float]:
    """The loss and every metric for the target."""
    everything = np.arange(len(found))
    fitting = [m for m in METRICS if target.kind in m.kinds and len(target.classes) >= m.least_classes]
    values = {metric.name: metric.of(found.labels, found.outputs)(everything) for metric in fitting}
    return {"loss": float(found.losses.mean()), **values}


@dataclass(frozen=True)
class Interval:
    """A number and its 95 % confidence interval."""

    value: float
    low: float
    high: float

    def to_json(self) -> dict[str, float]:
        """The form that the run's files have."""
        return {"value": self.value, "low": self.low, "high": self.high}


def bootstrap(measure: Measure, rows: int, *, seed: int = 0, draws: int = 400, groups: Array | None = None) -> Interval:
    """The value over all records, and its 95 % bootstrap interval. With `groups`, whole groups are drawn."""
    generator = np.random.default_rng(seed)
    everything = np.arange(rows)
    base = everything if rows <= _MOST_ROWS else generator.permutation(rows)[:_MOST_ROWS]
    members = None if groups is None else _members(groups[base], base)

    def draw() -> Array:
        if members is None:
            return base[generator.integers(0, len(base), len(base))]
        return np.concatenate([members[at] for at in generator.integers(0, len(members), len(members))])

    found = np.array([measure(draw()) for _ in range(draws)])
    if np.isnan(found).all():
        return Interval(math.nan, math.nan, math.nan)
    low, high = np.nanpercentile(found, [2.5, 97.5])
    return Interval(measure(everything), float(low), float(high))


def _members(groups: Array, rows: Array) -> list[Array]:
    """The rows of each group."""
    order = np.argsort(groups, kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(groups[order])) + 1)


def wilson(hits: int, of: int) -> Interval:
    """A share and its 95 % Wilson interval, which is also valid near 0 and 1."""
    if of == 0:
        return Interval(math.nan, 0.0, 1.0)
    share = hits / of
    middle = (share + _Z**2 / (2 * of)) / (1 + _Z**2 / of)
    half = _Z * math.sqrt(share * (1 - share) / of + _Z**2 / (4 * of**2)) / (1 + _Z**2 / of)
    return Interval(share, max(0.0, middle - half), min(1.0, middle + half))


def confusion(target: Target, found: Predictions) -> NDArray[np.int64]:
    """How often each class (rows) was predicted as each (columns)."""
    size = len(target.classes)
    pairs = found.labels * size + found.outputs.argmax(axis=1)
    return np.bincount(pairs, minlength=size * size).reshape(size, size)


def class_table(target: Target, found: Predictions) -> list[dict[str, Any]]:
    """Recall, precision and F1 of each class, with the interval of its recall."""
    if target.kind == "regression":
        return []
    truth, predicted = _one_hot(found.labels, found.outputs)
    rows = []
    for code, name in enumerate(target.classes):
        right, records, chosen = (int(part[:, code].sum()) for part in (truth & predicted, truth, predicted))
        recall = wilson(right, records)
        rows.append(
            {
                "class": name,
                "records": records,
                "recall": recall.value,
                "recall_low": recall.low,
                "recall_high": recall.high,
                "precision": right / chosen if chosen else math.nan,
                "f1": 2 * right / (records + chosen) if records + chosen else math.nan,
            }
        )
    return rows
