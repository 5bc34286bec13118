"""Whether the model learned: how much better it is than the baselines, how certain that is, and why not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.checking import Finding
from bushel.checking.findings import Moment, causes_first, rules_for
from bushel.checking.rules.model_rules import ModelFacts
from bushel.checking.rules.run_rules import RunFacts
from bushel.feeding.preparation import Problem, Target
from bushel.reading import Report
from bushel.training.options import Options
from bushel.training.predictions import Predictions
from bushel.training.verdict.baselines import Baselines, baseline_words, constant_outputs
from bushel.training.verdict.intervals import score_interval
from bushel.training.verdict.metrics import Interval, Metric, bootstrap, measure_of, metric_words, primary

__all__ = ["Verdict", "Watch", "add_scores", "blocked", "facts_so_far", "judge", "run_findings"]

LEAST_RECORDS = 10  # fewer cannot show whether a model learned
_WIDE = 0.9  # share of the gain of a perfect model; a wider interval decides nothing
Array = NDArray[Any]
_LOOKED_AT = 50  # first steps whose inputs are all looked at; after that, one in this many
_KEPT = 2000  # losses of steps
_STILL = 1e-4  # relative change of weights that changes no prediction


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on a run. `advantages` are over the baselines, above 0 if the model is better.

    If there are too few records to tell a good model from guessing, it is `unclear`, and not `learned`.
    """

    learned: bool
    summary: str
    unclear: bool = False  # too few records to tell
    metric: str = ""
    records: int = 0
    score: dict[str, float] = {}
    baselines: dict[str, dict[str, float]] = {}
    advantages: dict[str, dict[str, float]] = {}
    causes: list[dict[str, Any]] = []  # findings, the most likely first

    def __repr__(self) -> str:
        return f"Verdict({self.summary})"


def judge(
    target: Target,
    found: Predictions,
    baselines: Baselines,
    *,
    seed: int,
    moved: float | None = None,
    is_linear: bool = False,
    groups: Array | None = None,
) -> Verdict:
    """Compare the model with the baselines on the same records; the causes are added later.

    `moved` is how far training moved the weights. A model that it left where they were did not learn, however good
    they are. `is_linear` says that it is the linear model itself. `groups` are codes of what records belong to.
    """
    metric = primary(target)
    sign = 1.0 if metric.is_more_better else -1.0
    score = score_interval(metric, found.labels, found.outputs, groups=groups, seed=seed)
    numbers = baselines.numbers
    same = metric.of(found.labels[numbers], found.outputs[numbers])
    own = None if groups is None else groups[numbers]
    scores, advantages = {}, {}
    for name, outputs in baselines.outputs.items():
        if name == "augmented":
            continue
        theirs = metric.of(baselines.labels, outputs)
        scores[name] = score_interval(metric, baselines.labels, outputs, groups=own, seed=seed).to_json()

        def gain(drawn: NDArray[Any], theirs: Any = theirs) -> float:
            return sign * (same(drawn) - float(theirs(drawn)))

        advantages[name] = bootstrap(gain, len(numbers), seed=seed, draws=metric.draws, groups=own)
    unclear = _is_unclear(metric, len(numbers), advantages["constant"], scores["constant"]["value"])
    is_still = moved is not None and moved < _STILL
    learned = advantages["constant"].low > 0 and not unclear and not is_still
    head = f"{metric_words(metric.name)} {_shown(score)} on {count_of_records(len(found))}"
    others = {name: gain for name, gain in advantages.items() if not (is_linear and name == "linear")}
    compared = [_compared(gain, baseline_words(name, target)) for name, gain in others.items()]
    return Verdict(
        learned=learned,
        unclear=unclear,
        summary=f"{_outcome(learned, unclear, advantages['linear'])}: {head}; {', '.join(compared)}"
        + ("; but training left the weights as they were" if is_still else ""),
        metric=metric.name,
        records=len(found),
        score=score.to_json(),
        baselines=scores,
        advantages={name: interval.to_json() for name, interval in advantages.items()},
    )


def _outcome(learned: bool, unclear: bool, over_linear: Interval) -> str:
    if unclear:
        return "Too few records to tell whether it learned"
    if not learned:
        return "It did not learn"
    return "It learned, but less than a linear model" if over_linear.high < 0 else "It learned"


def _is_unclear(metric: Metric, records: int, gain: Interval, guessing: float) -> bool:
    """Whether there are too few records to tell a good model from guessing."""
    if records < LEAST_RECORDS:
        return True
    best = 1.0 - guessing if metric.is_more_better else guessing  # what a perfect model would gain
    return gain.low <= 0 and gain.high >= 0 and gain.high - gain.low > _WIDE * best


def _shown(score: Interval) -> str:
    return f"{score.value:.4g} ({score.low:.4g} to {score.high:.4g})"


def count_of_records(count: int) -> str:
    """A number of records, in words."""
    return f"{count:,} record{'' if count == 1 else 's'}"


def _compared(gain: Interval, baseline: str) -> str:
    if not math.isfinite(gain.value):
        return f"not comparable with {baseline}, because predictions are NaN"
    between = f"{gain.low:+.3g} to {gain.high:+.3g}"
    if gain.low <= 0 <= gain.high:
        return f"no significant difference from {baseline} ({gain.value:+.3g}, {between})"
    return f"{abs(gain.value):.3g} {'better' if gain.value > 0 else 'worse'} than {baseline} ({between})"


def blocked(findings: Sequence[Finding]) -> Verdict:
    """The verdict on a run that these findings stopped before it started."""
    causes = causes_first(findings)
    return Verdict(
        learned=False, summary=f"Not trained: {causes[0].message}", causes=[cause.to_json() for cause in causes]
    )


def add_scores(facts: RunFacts, target: Target, verdict: Verdict, baselines: Baselines, train_score: float) -> RunFacts:
    """Add how good the model is to the facts of a run; for all scores, more is better."""
    metric = primary(target)
    sign = 1.0 if metric.is_more_better else -1.0
    everything = np.arange(len(baselines.numbers))
    measures = {name: measure_of(target, baselines.labels, outputs) for name, outputs in baselines.outputs.items()}
    scores = {name: sign * measure(everything) for name, measure in measures.items()}
    linear, constant = measures["linear"], measures["constant"]
    ahead = bootstrap(
        lambda drawn: sign * (linear(drawn) - constant(drawn)), len(everything), draws=min(metric.draws, 200)
    )
    facts.metric = metric_words(metric.name)
    facts.score, facts.score_low = sign * verdict.score["value"], sign * verdict.score["low"]
    facts.train_score = sign * train_score
    facts.constant_score, facts.linear_score = scores["constant"], scores["linear"]
    facts.linear_low, facts.augmented_score = ahead.low, scores.get("augmented")
    facts.is_learned, facts.is_unclear = verdict.learned, verdict.unclear
    facts.is_worse = verdict.advantages["constant"]["high"] < 0
    facts.drift, facts.contradicting = baselines.drift, baselines.contradicting
    facts.held_low = _held_low(target, baselines, sign)
    facts.is_below_linear = verdict.advantages["linear"]["high"] < 0
    if facts.has_failed and baselines.rows is not None:
        asked, answers = baselines.ask_neighbours(target)
        near, guess = (
            metric.of(baselines.labels[asked], out) for out in (answers, baselines.outputs["constant"][asked])
        )
        gain = bootstrap(lambda drawn: sign * (near(drawn) - guess(drawn)), len(asked), draws=min(metric.draws, 200))
        facts.neighbours_low, facts.neighbours_score = gain.low, sign * near(np.arange(len(asked)))
    return facts


def _held_low(target: Target, baselines: Baselines, sign: float) -> float | None:
    """The lower bound of a linear model's gain over guessing, on train records that it did not see."""
    if baselines.held is None:
        return None
    labels, outputs = baselines.held
    guess = constant_outputs(target, labels, len(labels))
    own, guessed = measure_of(target, labels, outputs), measure_of(target, labels, guess)
    return bootstrap(lambda drawn: sign * (own(drawn) - guessed(drawn)), len(labels), draws=100).low


def run_findings(facts: RunFacts, ignore: Sequence[str] = (), *, when: Moment | None = None) -> list[Finding]:
    """What the rules about runs find; with `when`, only the rules for that moment."""
    return [finding for rule in rules_for("run", when, ignored=ignore) for finding in rule.run(facts)]


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
