"""Whether the model learned: better than the baselines or not, by how much, how sure, and why not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.checking import Finding
from bushel.checking.rules.model_rules import look_at_model
from bushel.checking.rules.registry import Moment, causes_first, rules_for
from bushel.checking.rules.run_rules import RunFacts
from bushel.training.inputs.inputs import Preparation
from bushel.training.inputs.task import Task
from bushel.training.loop.watch import Watch
from bushel.training.options import Options
from bushel.training.preflight import Baselines, Preflight
from bushel.training.verdict.run_facts import first_facts
from bushel.training.verdict.scores import Interval, Predictions, bootstrap, measure_of, primary, wilson

__all__ = ["Verdict", "blocked", "judge", "run_facts"]

_DRAWS_OF_AUC = 100
_NAMES = {"constant": "the commonest answer", "linear": "a linear model"}


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be said at the end of a run. `advantages` are over baselines: above 0 where the model is better."""

    learned: bool
    summary: str
    metric: str = ""
    records: int = 0
    score: dict[str, float] = {}
    baselines: dict[str, dict[str, float]] = {}
    advantages: dict[str, dict[str, float]] = {}
    causes: list[dict[str, Any]] = []  # findings, the likeliest first


def judge(task: Task, found: Predictions, baselines: Baselines, *, seed: int) -> Verdict:
    """Compare the model with the baselines on the same records; causes are for others to add."""
    metric, is_more = primary(task)
    sign = 1.0 if is_more else -1.0
    draws = _DRAWS_OF_AUC if metric == "auc" else 400
    own = measure_of(task, found.labels, found.outputs)
    score = bootstrap(own, len(found), seed=seed, draws=draws)
    if metric == "accuracy":
        hits = int((found.outputs.argmax(axis=1) == found.labels).sum())
        score = wilson(hits, len(found))
    numbers = baselines.numbers
    same = measure_of(task, found.labels[numbers], found.outputs[numbers])
    scores, advantages = {}, {}
    for name, outputs in baselines.outputs.items():
        if name == "augmented":
            continue
        theirs = measure_of(task, baselines.labels, outputs)
        scores[name] = bootstrap(theirs, len(numbers), seed=seed, draws=draws).to_json()

        def gain(drawn: NDArray[Any], theirs: Any = theirs) -> float:
            return sign * (same(drawn) - float(theirs(drawn)))

        advantages[name] = bootstrap(gain, len(numbers), seed=seed, draws=draws)
    learned = advantages["constant"].low > 0
    return Verdict(
        learned=learned,
        summary=_sentence(metric, score, advantages, learned=learned, records=len(found)),
        metric=metric,
        records=len(found),
        score=score.to_json(),
        baselines=scores,
        advantages={name: interval.to_json() for name, interval in advantages.items()},
    )


def _sentence(metric: str, score: Interval, advantages: dict[str, Interval], *, learned: bool, records: int) -> str:
    name = metric.replace("_", " ")
    head = f"{name} {score.value:.4g} ({score.low:.4g} to {score.high:.4g}) on {records:,} records"
    said = [f"{_than(interval)} {_NAMES[baseline]}" for baseline, interval in advantages.items()]
    return f"{'It learned' if learned else 'It did not learn'}: {head}; {', '.join(said)}"


def _than(gain: Interval) -> str:
    if gain.low <= 0 <= gain.high:
        return f"not told apart ({gain.value:+.3g}, {gain.low:+.3g} to {gain.high:+.3g}) from"
    word = "better" if gain.value > 0 else "worse"
    return f"{abs(gain.value):.3g} {word} ({gain.low:+.3g} to {gain.high:+.3g}) than"


def blocked(preflight: Preflight) -> Verdict:
    """The verdict on a run that was not begun."""
    causes = causes_first(preflight.blocking)
    first = causes[0]
    return Verdict(
        learned=False,
        summary=f"Not trained: {first.message}",
        causes=[cause.to_json() for cause in causes],
    )


def run_facts(
    task: Task,
    preparation: Preparation,
    options: Options,
    model: Any,
    watch: Watch,
    preflight: Preflight | None,
    verdict: Verdict | None = None,
    *,
    baselines: Baselines | None = None,
    train_score: float | None = None,
) -> RunFacts:
    """What rules about runs are told; without a verdict, what is known so far."""
    facts = first_facts(task, preparation, options, look_at_model(model, None), watch)
    facts.probe = preflight.probe if preflight is not None else None
    if verdict is not None and baselines is not None:
        _add_scores(facts, task, verdict, baselines, train_score)
    return facts


def _add_scores(facts: RunFacts, task: Task, verdict: Verdict, baselines: Baselines, train_score: float | None) -> None:
    metric, is_more = primary(task)
    sign = 1.0 if is_more else -1.0
    everything = np.arange(len(baselines.numbers))
    scores = {
        name: sign * measure_of(task, baselines.labels, out)(everything) for name, out in baselines.outputs.items()
    }
    constant = measure_of(task, baselines.labels, baselines.outputs["constant"])
    linear = measure_of(task, baselines.labels, baselines.outputs["linear"])
    draws = _DRAWS_OF_AUC if metric == "auc" else 200
    ahead = bootstrap(lambda drawn: sign * (linear(drawn) - constant(drawn)), len(everything), draws=draws)
    facts.metric = metric.replace("_", " ")
    facts.score, facts.score_low = sign * verdict.score["value"], sign * verdict.score["low"]
    facts.train_score = None if train_score is None else sign * train_score
    facts.constant_score, facts.linear_score = scores["constant"], scores["linear"]
    facts.linear_low, facts.augmented_score = ahead.low, scores.get("augmented")
    facts.is_learned = verdict.learned
    facts.is_below_linear = verdict.advantages["linear"]["high"] < 0


def run_findings(facts: RunFacts, ignore: Sequence[str] = (), *, when: Moment | None = None) -> list[Finding]:
    """What the rules about runs find; with `when`, those that can be asked at that moment."""
    return [finding for rule in rules_for("run", when, ignored=ignore) for finding in rule.run(facts)]
