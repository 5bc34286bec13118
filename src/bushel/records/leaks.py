"""Features that give the label away: what one feature alone predicts, measured on records that it was not learned from.

A leak and a good feature look the same in the data: both predict the label. What tells them apart is known to people
alone: whether the feature is there when predictions are made. So a leak is never proven here. What the data does show
is returned as `is_odd`: a feature that predicts nearly all labels where no other comes near, one that does so by being
there or missing, a copy of the label, and a number that only counts. Good features come in company: the length and the
width of an iris's petals both tell its kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

__all__ = ["Column", "How", "Leak", "find_leaks"]

How: TypeAlias = Literal["copy", "value", "threshold", "presence"]

NEARLY_ALL = 0.9  # of what always answering the largest class gets wrong
_ALL = 0.999
_FOLDS = 5
_ROWS = 4_000  # that are looked at
_NEAR = 4  # values on each side of a number, whose labels predict its own
_MIN_MISSING = 0.01  # share of records; fewer missing values cannot tell most labels
_COMPANY = 0.6  # of the best score: up to here, no other feature comes near
_REPEATS = 5  # times that values occur on average, to be looked up as they are


class Column(msgspec.Struct, frozen=True):
    """One number of every record; NaN where it is missing. Of texts, numbers stand for them: equal or not."""

    name: str
    values: NDArray[np.float64]
    is_number: bool = True
    of: str = ""  # the feature that it is a part of, if not itself: a pixel, a word, a size


class Leak(msgspec.Struct, frozen=True, kw_only=True):
    """A feature that alone predicts nearly all labels."""

    feature: str
    how: How
    score: float  # share of labels that it predicts, of records that it was not learned from
    baseline: float  # share that the most frequent label has
    others: float  # the score of the best feature that is not a part of the same
    is_odd: bool  # whether it is more than a good feature usually is
    why: str


def find_leaks(columns: Iterable[Column], labels: NDArray[np.int64]) -> list[Leak]:
    """The features that alone predict nearly all labels, the best first; of each, its best part."""
    some = np.unique(np.linspace(0, len(labels) - 1, min(len(labels), _ROWS)).astype(np.int64))
    labels = labels[some]
    _, codes = np.unique(labels, return_inverse=True)
    classes = int(codes.max()) + 1 if len(codes) else 0
    if classes < 2:
        return []
    folds = np.random.default_rng(0).permutation(len(codes)) % _FOLDS
    baseline = float(np.bincount(codes).max() / len(codes))
    best: dict[str, tuple[Column, How, float]] = {}
    parts: dict[str, list[float]] = {}
    for whole in columns:
        column = msgspec.structs.replace(whole, values=whole.values[some])
        how, score = _predicts(column, codes, folds)
        name = column.of or column.name
        parts.setdefault(name, []).append(score)
        if name not in best or score > best[name][2]:
            best[name] = (column, how, score)
    enough = baseline + NEARLY_ALL * (1 - baseline)
    found = []
    for name, (column, how, score) in best.items():
        if score >= enough:
            others = [own for other, (_, _, own) in best.items() if other != name] + [_typical(parts[name])]
            found.append(_judged(column, how, score, baseline, max(others, default=baseline)))
    return sorted(found, key=lambda leak: -leak.score)


def _typical(scores: Sequence[float]) -> float:
    """What most parts of a feature predict: a mark in a corner stands out from them, a bright picture does not."""
    return float(np.median(scores)) if len(scores) > 1 else 0.0


def _judged(column: Column, how: How, score: float, baseline: float, others: float) -> Leak:
    skill, company = ((one - baseline) / (1 - baseline) for one in (score, max(others, baseline)))
    if how == "copy" and column.of not in ("", column.name):
        how = "value"  # a word or a field of an image is not the label's other name
    why = {
        "copy": "every label has one value, and every value one label",
        "presence": "whether it is there or missing says it",
    }.get(how, "")
    if not why and column.is_number and _counts(column.values):
        why = "it only counts records, and they are in the order of their labels"
    if not why and how == "value" and score >= _ALL:
        why = "every value has one label"
    if not why and company <= _COMPANY * skill:
        why = "no other feature comes near it"
    is_odd = bool(why)
    return Leak(
        feature=column.name,
        how=how,
        score=score,
        baseline=baseline,
        others=max(others, baseline),
        is_odd=is_odd,
        why=why or "other features come near it, as they do where a task is easy",
    )


def _predicts(column: Column, codes: NDArray[np.intp], folds: NDArray[np.int64]) -> tuple[How, float]:
    """How well a column predicts labels, and by what of it."""
    is_there = np.isfinite(column.values)
    missing = 1 - float(is_there.mean())
    ways: list[tuple[How, float]] = []
    if _MIN_MISSING <= missing <= 1 - _MIN_MISSING:
        ways.append(("presence", _table_score(is_there.astype(np.int64), codes, folds)))
    known = np.unique(column.values[is_there])
    if len(known) > 1 and column.is_number and _REPEATS * len(known) > int(is_there.sum()):
        ways.append(("threshold", _order_score(column.values, codes, folds)))
    elif len(known) > 1:
        places = np.zeros(len(column.values), np.int64)  # 0 stands for missing
        places[is_there] = 1 + np.searchsorted(known, column.values[is_there])
        score = _table_score(places, codes, folds)
        is_copy = score >= _ALL and len(known) == int(codes.max()) + 1 and missing < _MIN_MISSING
        ways.append(("copy" if is_copy else "value", score))
    # What being there tells is not ascribed to the value.
    return max(ways, key=lambda way: (round(way[1], 2), way[0] == "presence"), default=("value", 0.0))


def _table_score(places: NDArray[np.int64], codes: NDArray[np.intp], folds: NDArray[np.int64]) -> float:
    """The share of labels that a table from value to label predicts, which is made from the other folds each time."""
    classes, size = int(codes.max()) + 1, int(places.max()) + 1
    cells = places * classes + codes
    counts = np.stack([np.bincount(cells[folds == fold], minlength=size * classes) for fold in range(_FOLDS)])
    right = 0
    for fold in range(_FOLDS):
        rest = (counts.sum(axis=0) - counts[fold]).reshape(size, classes)
        usual = int(rest.sum(axis=0).argmax())
        answer = np.where(rest.any(axis=1), rest.argmax(axis=1), usual)
        right += int(counts[fold].reshape(size, classes)[np.arange(size), answer].sum())
    return right / len(codes)


def _order_score(values: NDArray[np.float64], codes: NDArray[np.intp], folds: NDArray[np.int64]) -> float:
    """The share of labels that the labels of the nearest numbers predict, which are of the other folds each time."""
    is_there = np.isfinite(values)
    order = np.argsort(np.where(is_there, values, np.inf), kind="stable")  # missing ones at the end
    hot = np.eye(int(codes.max()) + 1, dtype=np.int64)
    right = 0
    for fold in range(_FOLDS):
        rest = order[folds[order] != fold]
        own = np.flatnonzero(folds == fold)
        known = rest[is_there[rest]]
        before = np.concatenate([np.zeros((1, hot.shape[1]), np.int64), np.cumsum(hot[codes[rest]], axis=0)])
        numbers = values[known]
        middle = (np.searchsorted(numbers, values[own], "left") + np.searchsorted(numbers, values[own], "right")) // 2
        low = np.where(is_there[own], np.clip(middle - _NEAR, 0, len(known)), len(known))
        high = np.where(is_there[own], np.clip(middle + _NEAR, 0, len(known)), len(rest))
        right += int(((before[high] - before[low]).argmax(axis=1) == codes[own]).sum())
    return right / len(codes)


def _counts(values: NDArray[np.float64]) -> bool:
    """Whether values count something: whole numbers, none of them twice."""
    return bool((values == np.rint(values)).all()) and len(np.unique(values)) == len(values)
