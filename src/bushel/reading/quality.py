"""How well records are shuffled, in numbers that can be compared. Each is 0 or 1 for a perfect shuffle, as it says."""

from __future__ import annotations

from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

__all__ = ["Quality", "shuffle_quality"]

Ints: TypeAlias = NDArray[np.int64]


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """One epoch's order beside the order in the files, and beside the next epoch's."""

    coverage: float  # share of the records that come exactly once; perfect: 1
    rank_correlation: float  # with the order in the files; perfect: 0
    neighbours: float  # share of records whose follower in the files follows within a batch; perfect: about 0
    displacement: float  # how far a record moves, by what it would at random; perfect: 1
    labels: float  # labels in a batch of files sorted by label, by what there would be at random; perfect: 1
    epoch_correlation: float  # of a record's place in two epochs; perfect: 0


def shuffle_quality(first: Ints, second: Ints, *, batch_size: int = 256, classes: int = 100) -> Quality:
    """Judge the records of two epochs, each in the order they are read."""
    size = len(first)
    counts = np.bincount(first, minlength=size)
    places, later = np.empty(size, np.int64), np.empty(size, np.int64)
    places[first], later[second] = np.arange(size), np.arange(size)
    numbers = np.arange(size)
    return Quality(
        coverage=float((counts == 1).mean()),
        rank_correlation=_correlation(numbers, first),
        neighbours=float((np.abs(np.diff(places)) < batch_size).mean()),
        displacement=float(np.abs(places - numbers).mean() / (size / 3)),
        labels=_labels(first, batch_size, classes),
        epoch_correlation=_correlation(places, later),
    )


def _correlation(a: Ints, b: Ints) -> float:
    return float(np.corrcoef(a, b)[0, 1])


def _labels(rows: Ints, batch_size: int, classes: int) -> float:
    whole = len(rows) // batch_size
    labels = (rows[: whole * batch_size] * classes // len(rows)).reshape(whole, batch_size)
    distinct = np.array([len(np.unique(batch)) for batch in labels[:: max(1, whole // 200)]])
    at_random = classes * (1 - (1 - 1 / classes) ** batch_size)
    return float(distinct.mean() / at_random)
