"""How many labels are wrong, by predictions for records that were not learned from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bushel.training.predictions import Predictions
from bushel.training.verdict.metrics import wilson

__all__ = ["WrongLabels", "estimate_noise", "least_likely"]

_LEAST = 100  # records that tell something
_SURE = 0.3  # the share of records that a model is most sure of
_FALLS = 0.075  # by how much less often the next are right, from which classes overlap
_BETTER = 0.15  # of what a perfect model gains: a model that learned less is sure of nothing
_LISTED = 20


@dataclass(frozen=True)
class WrongLabels:
    """The share of labels that are wrong, and the least that it is likely to be."""

    share: float
    low: float


def estimate_noise(found: Predictions) -> WrongLabels | None:
    """The share of labels that contradict the answers a model is most sure of; None where that tells nothing.

    Where classes overlap, a model that is surer is right more often, and this is no estimate of wrong labels. Where
    labels are wrong by mistake, the surest answers are wrong as often as the next ones.
    """
    counts = np.bincount(found.labels)
    guess = counts.max(initial=0) / max(1, len(found))
    order = np.argsort(-_sureness(found), kind="stable")
    right = (found.outputs.argmax(axis=1) == found.labels)[order]
    if len(found) < _LEAST or right.mean() < guess + _BETTER * (1 - guess):
        return None
    first = max(1, round(_SURE * len(found)))
    sure, rest = right[:first], right[first : 2 * first]
    if sure.mean() - rest.mean() > _FALLS:
        return None
    wrong = wilson(int((~sure).sum()), len(sure))
    return WrongLabels(wrong.value, wrong.low)


def _sureness(found: Predictions) -> NDArray[np.float64]:
    """How far the first answer is above the second."""
    two = np.sort(found.outputs.astype(np.float64), axis=1)[:, -2:]
    return np.asarray(two[:, 1] - two[:, 0])


def least_likely(found: Predictions) -> NDArray[np.int64]:
    """The records whose own label is least likely, of those that are predicted otherwise, by number."""
    own = found.outputs[np.arange(len(found)), found.labels]
    order = np.argsort(own, kind="stable")[:_LISTED]
    return np.asarray(order[found.outputs.argmax(axis=1)[order] != found.labels[order]])
