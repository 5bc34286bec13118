"""How good predictions are, in the numbers that fit the task, and how sure those numbers are."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.training.inputs.task import Task
from bushel.training.predicting import probabilities

__all__ = ["Interval", "Predictions", "as_probabilities", "bootstrap", "class_table", "confusion", "metrics", "primary"]

Array = NDArray[Any]

DRAWS = 400
_MOST_ROWS = 20_000  # that are drawn from; more change the interval little
_Z = 1.959964  # of 95 %
_IMBALANCED = 1.5  # times the share of a balanced class, from which accuracy flatters


@dataclass(frozen=True)
class Predictions:
    """What a model said of each record: `outputs` are probabilities of classes, or numbers."""

    labels: Array
    outputs: Array
    losses: Array  # of each record
    rows: NDArray[np.int64]  # their numbers in the shards

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Interval:
    """A number and where it lies with 95 % confidence."""

    value: float
    low: float
    high: float

    def to_json(self) -> dict[str, float]:
        """As the run's files have it."""
        return {"value": self.value, "low": self.low, "high": self.high}


def as_probabilities(task: Task, raw: Array) -> Array:
    """Outputs of any model as probabilities, by class; numbers of a regression as they are."""
    return probabilities(task.kind, raw)


def losses_of(task: Task, labels: Array, outputs: Array) -> Array:
    """How wrong each prediction is: the surprise at the label, or the square of the difference."""
    if task.kind == "regression":
        return np.asarray(((outputs - labels) ** 2).mean(axis=1), np.float64)
    shares = np.clip(outputs.astype(np.float64), 1e-7, 1 - 1e-7)
    if task.kind == "multi_label":
        return np.asarray(-(labels * np.log(shares) + (1 - labels) * np.log(1 - shares)).mean(axis=1))
    return np.asarray(-np.log(shares[np.arange(len(labels)), labels]))


Measure = Callable[[Array], float]  # of the records drawn, by number


def primary(task: Task) -> tuple[str, bool]:
    """The number that the verdict is about, and whether more is better."""
    if task.kind == "regression":
        return "mae", False
    if task.kind == "multi_label":
        return "auc", True
    total = sum(task.counts) or 1
    share = max(task.counts, default=0) / total
    return ("balanced_accuracy" if share > _IMBALANCED / max(2, len(task.classes)) else "accuracy"), True


def measure_of(task: Task, labels: Array, outputs: Array) -> Measure:
    """The primary number of any draw of records."""
    name, _ = primary(task)
    if name == "mae":
        errors = np.abs(outputs - labels).mean(axis=1)
        return lambda drawn: float(errors[drawn].mean())
    if name == "auc":
        return lambda drawn: macro_auc(labels[drawn], outputs[drawn])
    hits = (outputs.argmax(axis=1) == labels).astype(np.float64)
    if name == "accuracy":
        return lambda drawn: float(hits[drawn].mean())
    return lambda drawn: _mean_recall(labels[drawn], hits[drawn])


def _mean_recall(labels: Array, hits: Array) -> float:
    counts = np.bincount(labels)
    right = np.bincount(labels, hits)
    return float((right[counts > 0] / counts[counts > 0]).mean())


def bootstrap(measure: Measure, rows: int, *, seed: int = 0, draws: int = DRAWS) -> Interval:
    """The number over all records, and its 95 % interval from draws with replacement."""
    generator = np.random.default_rng(seed)
    everything = np.arange(rows)
    base = everything if rows <= _MOST_ROWS else generator.permutation(rows)[:_MOST_ROWS]
    found = np.array([measure(base[generator.integers(0, len(base), len(base))]) for _ in range(draws)])
    low, high = np.nanpercentile(found, [2.5, 97.5])
    return Interval(measure(everything), float(low), float(high))


def wilson(hits: int, of: int) -> Interval:
    """A share and its 95 % interval by Wilson's score, which holds for shares near 0 and 1 too."""
    if of == 0:
        return Interval(math.nan, 0.0, 1.0)
    share = hits / of
    middle = (share + _Z**2 / (2 * of)) / (1 + _Z**2 / of)
    half = _Z * math.sqrt(share * (1 - share) / of + _Z**2 / (4 * of**2)) / (1 + _Z**2 / of)
    return Interval(share, max(0.0, middle - half), min(1.0, middle + half))


def auc(labels: Array, scores: Array) -> float:
    """The area under the ROC curve: how often a positive is ranked above a negative; ties count half."""
    positives = labels > 0.5
    count, others = int(positives.sum()), int((~positives).sum())
    if not count or not others:
        return math.nan
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return float((ranks[positives].sum() - count * (count + 1) / 2) / (count * others))


def macro_auc(labels: Array, outputs: Array) -> float:
    """The mean of the areas of all labels that occur and do not always."""
    found = [auc(labels[:, number], outputs[:, number]) for number in range(labels.shape[1])]
    known = [value for value in found if not math.isnan(value)]
    return float(np.mean(known)) if known else 0.5


def metrics(task: Task, found: Predictions) -> dict[str, float]:
    """The numbers that fit the task."""
    labels, outputs = found.labels, found.outputs
    out = {"loss": float(found.losses.mean())}
    if task.kind == "regression":
        errors = outputs - labels
        spread = float(((labels - labels.mean(axis=0)) ** 2).mean())
        out |= {"mae": float(np.abs(errors).mean()), "rmse": float(np.sqrt((errors**2).mean()))}
        return {**out, "r2": 1 - float((errors**2).mean()) / spread if spread else math.nan}
    if task.kind == "multi_label":
        said = outputs > 0.5
        out |= {"accuracy": float((said == (labels > 0.5)).mean()), "auc": macro_auc(labels, outputs)}
        return {**out, "f1": _f1(labels > 0.5, said)}
    chosen = outputs.argmax(axis=1)
    hits = chosen == labels
    out |= {"accuracy": float(hits.mean()), "balanced_accuracy": _mean_recall(labels, hits.astype(float))}
    table = [row for row in class_table(task, found) if row["records"]]
    out["f1"] = float(np.mean([row["f1"] for row in table])) if table else math.nan
    if task.kind == "binary":
        out["auc"] = auc(labels, outputs[:, 1])
    if len(task.classes) > 5:
        best = np.argsort(-outputs, axis=1, kind="stable")[:, :5]
        out["top_5"] = float((best == labels[:, None]).any(axis=1).mean())
    return out


def _f1(truth: Array, said: Array) -> float:
    right = float((truth & said).sum())
    return 2 * right / max(1.0, float(truth.sum() + said.sum()))


def confusion(task: Task, found: Predictions) -> NDArray[np.int64]:
    """How often each class (down) was taken for each (across)."""
    size = len(task.classes)
    pairs = found.labels * size + found.outputs.argmax(axis=1)
    return np.bincount(pairs, minlength=size * size).reshape(size, size)


def class_table(task: Task, found: Predictions) -> list[dict[str, Any]]:
    """Recall, precision and F1 of each class, with the interval of its recall."""
    if task.kind == "regression":
        return []
    if task.kind == "multi_label":
        truth, said = found.labels > 0.5, found.outputs > 0.5
    else:
        classes = np.arange(len(task.classes))
        truth = found.labels[:, None] == classes
        said = found.outputs.argmax(axis=1)[:, None] == classes
    rows = []
    for code, name in enumerate(task.classes):
        right, records, chosen = (int(part[:, code].sum()) for part in (truth & said, truth, said))
        recall = wilson(right, records)
        rows.append(
            {
                "class": name,
                "records": records,
                "recall": recall.value if records else math.nan,
                "recall_low": recall.low,
                "recall_high": recall.high,
                "precision": right / chosen if chosen else math.nan,
                "f1": 2 * right / (records + chosen) if records + chosen else math.nan,
            }
        )
    return rows
