"""Which default model a dataset gets: a network, a linear model or trees, by scores on records not learned from."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.feeding.preparation import Target
from bushel.training.loop.loop import Training
from bushel.training.loop.starting import start_training
from bushel.training.options import Options
from bushel.training.predictions import Predictions
from bushel.training.setup import Setup, set_up
from bushel.training.tree_models import KINDS, Booster, is_for_network
from bushel.training.verdict.intervals import score_interval
from bushel.training.verdict.metrics import Interval, Metric, metric_words, primary

__all__ = ["NETWORK", "Contest", "beats", "hold_contest", "rivals_of", "run_rival"]

NETWORK = "network"
_MOST_RECORDS = 200_000  # of train: beyond them a second model takes minutes
_WIDEST = 500  # values of a record that trees are tried on
_MARGIN = 0.25  # of the standard error of a score: a tie goes to the first
_SMALL = 200  # records of val, below which models are cross-validated
_CHEAP = 4000  # records of train, up to which they can be
_FOLDS = 3
_OF_DATA = (
    *("label", "task", "columns", "kinds", "max_length", "sparse_width", "class_weights", "seed"),
    *("image_size", "shuffle_buffer", "threads", "on_fault"),
)
_PICTURES = ("image", "clip")  # on which a network takes too long to be trained again


def rivals_of(setup: Setup, options: Options) -> list[str]:
    """The other models to try: none if the user chose a model, or said how a network is to be trained."""
    is_open = options.model is None and options.epochs is None and options.learning_rate is None
    if not is_open or is_for_network(options) or len(setup.splits.train) > _MOST_RECORDS:
        return []
    kinds = {given.kind for given in setup.problem.inputs}
    width = sum(int(np.prod([size or 1 for size in given.shape])) for given in setup.problem.inputs)
    are_tables = kinds <= set(KINDS) or (bool(kinds & set(KINDS)) and options.columns is None)
    return ["linear", "trees"] if are_tables and width <= _WIDEST else ["linear"]


@dataclass(frozen=True)
class Contest:
    """The models that were compared: their runs, their scores, and the name of the best."""

    runs: dict[str, Training]
    scores: dict[str, Interval]
    chosen: str
    judged_by: str  # the records, in words
    left_out: list[str] = field(default_factory=list)
    held: dict[str, Predictions] = field(default_factory=dict)  # for records of train, by cross-validation

    @property
    def best(self) -> Training:
        """The run of the best model."""
        return self.runs[self.chosen]

    def notes(self, target: Target) -> list[str]:
        """What was compared, and the option that overrules it."""
        shown = ", ".join(f"{name} {_shown(score)}" for name, score in self.scores.items())
        others = " or ".join(f"--model {name}" for name in self.scores if name != self.chosen)
        by = f"by {metric_words(primary(target).name)} on {self.judged_by}"
        return [*self.left_out, f"the model is {self.chosen}, {by}: {shown} ({others} overrules this)"]

    def table(self, target: Target) -> tuple[list[str], list[list[str]]]:
        """The models and their scores, as a table."""
        head = ["model", f"{metric_words(primary(target).name)} on {self.judged_by}", "95 % from", "to", ""]
        rows = []
        for name, score in self.scores.items():
            numbers = [f"{value:.4g}" for value in (score.value, score.low, score.high)]
            rows.append([name, *numbers, "chosen" if name == self.chosen else ""])
        return head, rows

    def to_json(self) -> dict[str, Any]:
        """The form that the run's files have."""
        scores = {name: score.to_json() for name, score in self.scores.items()}
        return {"chosen": self.chosen, "judged_by": self.judged_by, "scores": scores}


def _shown(score: Interval) -> str:
    return f"{score.value:.4g} ({score.low:.4g} to {score.high:.4g})"


def hold_contest(training: Training, options: Options, linear: Training | None) -> Contest | None:
    """Compare a run with those of the other default models; None if there are none. `linear` is that of a linear one.

    The validation split judges; if it is small, the records of train do, each by models that did not learn from it.
    """
    setup = training.setup
    names = rivals_of(setup, options)
    if not names:
        return None
    runs: dict[str, Training] = {NETWORK: training}
    if linear is not None:
        runs["linear"] = linear
    left_out = []
    if "trees" in names and importlib.util.find_spec("sklearn") is None:
        left_out.append('trees were not tried, because scikit-learn is missing: pip install "bushel[trees]"')
    elif "trees" in names:
        runs["trees"] = run_rival(setup, "trees")
    target, val, metric = setup.target, setup.splits.val, primary(setup.target)
    scores = {name: _score(target, run.predict_best(val)) for name, run in runs.items()}
    judged_by, held = "val", {}
    open_to = [name for name in runs if not _is_beaten(scores[name], scores.values(), metric)]
    if len(open_to) > 1 and _is_cross_validated(setup):
        judged_by = f"{len(setup.splits.train):,} records of train, cross-validated"
        left_out += [f"{name} was clearly worse on val: {_shown(scores[name])}" for name in runs if name not in open_to]
        held = {name: _cross_validate(runs[name]) for name in open_to}
        scores = {name: _score(target, found) for name, found in held.items()}
    chosen = next(iter(scores))
    for name, score in scores.items():
        chosen = name if beats(score, scores[chosen], is_more_better=metric.is_more_better) else chosen
    return Contest(runs, scores, chosen, judged_by, left_out, held)


def run_rival(setup: Setup, name: str) -> Training:
    """The finished run of another model on the same data."""
    options = Options(model=name, tensorboard=False, **{key: getattr(setup.options, key) for key in _OF_DATA})
    rival = start_training(set_up(setup.splits.data, options), None)
    rival.run()
    return rival


def _score(target: Target, found: Predictions) -> Interval:
    return score_interval(primary(target), found.labels, found.outputs)


def beats(rival: Interval, best: Interval, *, is_more_better: bool = True) -> bool:
    """Whether a rival is better by more than a tie."""
    if math.isnan(rival.value):
        return False
    gain = rival.value - best.value if is_more_better else best.value - rival.value
    return math.isnan(best.value) or gain > _MARGIN * min(rival.high - rival.low, best.high - best.low) / 4


def _is_beaten(score: Interval, others: Iterable[Interval], metric: Metric) -> bool:
    """Whether the interval of another score is wholly better."""
    if metric.is_more_better:
        return any(other.low > score.high for other in others)
    return any(other.high < score.low for other in others)


def _is_cross_validated(setup: Setup) -> bool:
    splits = setup.splits
    are_fast = len(splits.train) <= _CHEAP and all(given.kind not in _PICTURES for given in setup.problem.inputs)
    return len(splits.val) < _SMALL and are_fast and not splits.train.is_sequential and len(splits.train) >= 2 * _FOLDS


def _cross_validate(run: Training) -> Predictions:
    """What models of this kind predict for records of train that they did not learn from."""
    setup, train = run.setup, run.setup.splits.train
    fold = np.random.default_rng(setup.options.seed).permutation(len(train)) % _FOLDS
    found = []
    with _begun_anew(run) as begin:
        for number in range(_FOLDS):
            rest, held = (train.select(np.flatnonzero(part)) for part in (fold != number, fold == number))
            splits = dataclasses.replace(setup.splits, train=rest, test=None)
            again = start_training(dataclasses.replace(setup, splits=splits, learner=begin()), None)
            again.run()
            found.append(again.predict_best(held))
    parts = ("labels", "outputs", "rows")
    labels, outputs, rows = (np.concatenate([getattr(part, name) for part in found]) for name in parts)
    return Predictions.of(setup.target, labels, outputs, rows)


@contextlib.contextmanager
def _begun_anew(run: Training) -> Iterator[Any]:
    """What gives a learner that has learned nothing; that of the run is afterwards as it was."""
    setup, learner = run.setup, run.setup.learner
    if setup.options.is_trees:
        yield lambda: Booster(setup.problem, setup.options, records=len(setup.splits.train))
        return
    variables = [*learner.model.variables, *learner.model.optimizer.variables]
    ended = [np.asarray(variable).copy() for variable in variables]

    def begin() -> Any:
        _assign(variables, run.begun)
        return learner

    yield begin
    _assign(variables, ended)


def _assign(variables: list[Any], values: list[NDArray[Any]]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
