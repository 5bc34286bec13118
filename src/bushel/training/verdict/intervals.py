"""How certain a score is: 95 % intervals that hold for rare classes, heavy tails, perfect scores and groups of records.

Records of one group (a person, a series) are alike: a hundred of them may say as little as two. Each interval is
widened by how much more the sums of groups vary than those of as many records by themselves, and by how few groups
there are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.training.verdict.metrics import Interval, Metric, auc, bootstrap

__all__ = ["score_interval"]

Array = NDArray[Any]
_Z = 1.959964  # of 95 %
_DRAWS = 999
_CORRECTION = 0.25  # of a record
_MOST = 3  # times the usual quantile that a heavy tail may widen an interval
_STEPS = 60  # of a bisection


def score_interval(
    metric: Metric, labels: Array, outputs: Array, *, groups: Array | None = None, seed: int = 0
) -> Interval:
    """The score of predictions with its interval; `groups` are codes of what records belong to."""
    value = metric.of(labels, outputs)(np.arange(len(labels)))
    own = np.arange(len(labels)) if groups is None else np.unique(groups, return_inverse=True)[1].reshape(-1)
    if not len(labels) or not math.isfinite(value):
        return Interval(value, math.nan, math.nan)
    if metric.name in ("accuracy", "balanced_accuracy") and labels.ndim == 1:
        hits = np.asarray(outputs.argmax(axis=1) == labels, np.float64)
        strata = labels if metric.name == "balanced_accuracy" else np.zeros(len(labels), np.int64)
        return _mean_share(hits, strata, own)
    if metric.name == "auc":
        columns = [(labels, outputs[:, 1])] if labels.ndim == 1 else list(zip(labels.T, outputs.T, strict=True))
        return _mean_area(columns, own, value)
    if metric.name == "mae":
        return _mean_error(np.abs(outputs - labels).mean(axis=1), own, seed)
    return bootstrap(metric.of(labels, outputs), len(labels), seed=seed, draws=metric.draws, groups=groups)


def _quantile(groups: int) -> float:
    """The two-sided 95 % quantile of Student's t for so many groups, to three digits."""
    freedom = max(1, groups - 1)
    if freedom == 1:
        return 12.706
    z, more = _Z, 0.0
    more += (z**3 + z) / 4 / freedom
    more += (5 * z**5 + 16 * z**3 + 3 * z) / 96 / freedom**2
    more += (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384 / freedom**3
    return z + more


def _sums(values: Array, groups: Array) -> Array:
    found = np.bincount(groups, values)
    return found[np.bincount(groups) > 0]


def _effective(values: Array, groups: Array) -> tuple[float, float]:
    """How many independent records a mean is as certain as, and the quantile to use."""
    count, apart = len(values), len(np.unique(groups))
    if apart == count:
        return float(count), _Z
    away = values - values.mean()
    alone = float((away**2).sum())
    if alone == 0:  # all are the same: nothing tells how alike those of a group are
        return float(apart), _quantile(apart)
    together = float((_sums(away, groups) ** 2).sum()) * apart / max(1, apart - 1)
    return count / max(1.0, together / alone), _quantile(apart)


def _wilson(share: float, of: float, z: float) -> tuple[float, float]:
    """Wilson's interval, a quarter of a record wider on each side: near 1 its own holds the truth too seldom."""
    found = []
    for sign in (-1, 1):
        moved = min(1.0, max(0.0, share + sign * _CORRECTION / of))
        half = z * math.sqrt(moved * (1 - moved) / of + z**2 / (4 * of**2))
        found.append((moved + z**2 / (2 * of) + sign * half) / (1 + z**2 / of))
    return max(0.0, found[0]), min(1.0, found[1])


def _mean_share(hits: Array, strata: Array, groups: Array) -> Interval:
    """The mean of the share of hits in each stratum: Wilson's interval for each, joined as Newcombe joins them."""
    shares, below, above = [], 0.0, 0.0
    for code in np.unique(strata):
        some = strata == code
        share = float(hits[some].mean())
        low, high = _wilson(share, *_effective(hits[some], groups[some]))
        shares.append(share)
        below, above = below + (share - low) ** 2, above + (high - share) ** 2
    value, count = float(np.mean(shares)), len(shares)
    return Interval(value, max(0.0, value - math.sqrt(below) / count), min(1.0, value + math.sqrt(above) / count))


def _mean_area(columns: list[tuple[Array, Array]], groups: Array, value: float) -> Interval:
    """The mean of areas; as sure as the least sure of labels that err together."""
    found = [_area(truth > 0.5, scores, groups) for truth, scores in columns]
    known = [bounds for bounds in found if bounds is not None]
    if not known:
        return Interval(value, 0.0, 1.0)
    low, high = (float(np.mean([bounds[side] for bounds in known])) for side in (0, 1))
    return Interval(value, min(value, low), max(value, high))


def _area(truth: Array, scores: Array, groups: Array) -> tuple[float, float] | None:
    """An area under the ROC curve: where its distance from the one that was found is as large as chance makes it."""
    area = auc(truth, scores)
    if math.isnan(area):
        return None
    counts, z = [], _Z
    for code in (truth, ~truth):  # the share of the others that each record is ranked rightly against
        against = np.sort(scores[~code])
        sign = 1 if code is truth else -1
        placed = np.searchsorted(against, scores[code]) / len(against)
        count, quantile = _effective(placed if sign > 0 else 1 - placed, groups[code])
        counts.append(max(2.0, count))
        z = max(z, quantile)
    return _bound(area, counts, z, up=False), _bound(area, counts, z, up=True)


def _bound(area: float, counts: list[float], z: float, *, up: bool) -> float:
    inside, outside = area, 1.0 if up else 0.0
    for _ in range(_STEPS):
        tried = (inside + outside) / 2
        if abs(tried - area) <= z * math.sqrt(_variance(tried, *counts)):
            inside = tried
        else:
            outside = tried
    return inside


def _variance(area: float, positives: float, negatives: float) -> float:
    """Hanley and McNeil's variance of an area, with the mean of both counts in place of either, after Newcombe."""
    mean = (positives + negatives) / 2 - 1
    more = mean * (1 - area) / (2 - area) + mean * area / (1 + area)
    return max(1e-12, area * (1 - area) * (1 + more) / (positives * negatives))


def _mean_error(errors: Array, groups: Array, seed: int) -> Interval:
    """A mean of errors: the bootstrap of its logarithm, studentised, which follows heavy tails."""
    sums = _sums(errors, groups)
    sizes = np.bincount(groups)
    sizes = sizes[sizes > 0].astype(np.float64)
    value, error = _ratio(sums[None], sizes[None])
    if not value[0] > 0 or not error[0] > 0:
        return Interval(float(value[0]), float(value[0]), float(value[0]))
    drawn = np.random.default_rng(seed).integers(0, len(sums), (_DRAWS, len(sums)))
    means, errors_of = _ratio(sums[drawn], sizes[drawn])
    is_usable = (errors_of > 0) & (means > 0)
    away = np.log(means[is_usable] / value[0]) * means[is_usable] / errors_of[is_usable]
    low, high = np.percentile(away, [2.5, 97.5])
    most = _quantile(len(sums))
    scale = float(error[0] / value[0])
    up, down = (min(_MOST * most, max(most, end)) * scale for end in (-low, high))
    return Interval(float(value[0]), float(value[0] * math.exp(-down)), float(value[0] * math.exp(up)))


def _ratio(sums: Array, sizes: Array) -> tuple[Array, Array]:
    """The mean over records of each draw of groups, and its standard error."""
    total, count = sizes.sum(axis=1), sums.shape[1]
    mean = sums.sum(axis=1) / total
    away = sums - mean[:, None] * sizes
    return mean, np.sqrt((away**2).sum(axis=1) * count / max(1, count - 1)) / total
