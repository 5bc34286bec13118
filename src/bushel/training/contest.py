"""Which default model a table gets: a network, trees or a linear model, by their scores on the validation split."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping

import msgspec
import numpy as np

from bushel.training.loop.loop import Training
from bushel.training.options import Options
from bushel.training.setup import Setup
from bushel.training.tree_models import KINDS, is_for_network
from bushel.training.verdict.metrics import measure_of, primary

__all__ = ["NETWORK", "Score", "beats", "contest_words", "rivals_of", "score_on_val"]

NETWORK = "network"
_MOST_RECORDS = 200_000  # of train: beyond them a second model takes minutes
_LINEAR_KINDS = (*KINDS, "series")
_MARGIN = 0.25  # of the standard error of a score: a tie goes to the network
_DRAWS = 100


def rivals_of(setup: Setup, options: Options) -> list[str]:
    """The other models to try: none if the user chose a model, or said how a network is to be trained."""
    is_open = options.model is None and options.epochs is None and options.learning_rate is None
    if not is_open or is_for_network(options) or len(setup.splits.train) > _MOST_RECORDS:
        return []
    kinds = {given.kind for given in setup.problem.inputs}
    rivals = ["linear"] if kinds <= set(_LINEAR_KINDS) else []
    are_tables = kinds <= set(KINDS) or (bool(kinds & set(KINDS)) and options.columns is None)
    if are_tables and importlib.util.find_spec("sklearn") is not None:
        rivals.append("trees")
    return rivals


class Score(msgspec.Struct, frozen=True):
    """A score on the validation split, of which more is better, and its standard error."""

    value: float
    error: float


def score_on_val(training: Training) -> Score:
    """How well the best weights of a run do on the validation split."""
    setup = training.setup
    with training.best_weights():
        found = training.predict(setup.splits.val)
    measure = measure_of(setup.target, found.labels, found.outputs)
    sign = 1 if primary(setup.target).is_more_better else -1
    generator = np.random.default_rng(0)
    draws = [measure(generator.integers(0, len(found), len(found))) for _ in range(_DRAWS)] if len(found) else []
    error = float(np.nanstd(draws)) if draws else 0.0
    return Score(sign * measure(np.arange(len(found))), error)


def beats(rival: Score, best: Score) -> bool:
    """Whether a rival is better by more than a tie."""
    if math.isnan(rival.value):
        return False
    return math.isnan(best.value) or rival.value > best.value + _MARGIN * min(rival.error, best.error)


def contest_words(setup: Setup, scores: Mapping[str, Score], chosen: str) -> str:
    """What was compared, and the option that overrules it."""
    metric = primary(setup.target)
    shown = ", ".join(f"{name} {abs(score.value):.4g}" for name, score in scores.items())
    others = " or ".join(f"--model {name}" for name in scores if name != chosen)
    return f"the model is {chosen}, by {metric.words or metric.name} on val: {shown} ({others} overrules this)"
