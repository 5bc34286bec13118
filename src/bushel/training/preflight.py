"""Checks that take seconds before the first epoch: the data, the model on it, and a few steps on one batch."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.checking import Finding, ReadingPlan, check
from bushel.checking.findings import Subject, finding_of, rules_for
from bushel.checking.rules.model_rules import ModelFacts, head_does_not_fit_labels, look_at_model
from bushel.checking.rules.probe_rules import TrainingProbe, probe_batch, probe_size
from bushel.feeding.preparation import arrange
from bushel.keras import as_array, as_tensors
from bushel.training.inputs.splits import Splits, rows_of
from bushel.training.loop.learner import label_form
from bushel.training.models import head_problem, outputs_of
from bushel.training.setup import Setup
from bushel.training.verdict.verdict import Watch, facts_so_far

__all__ = ["Preflight", "look_before"]

Array = NDArray[Any]

_CHECKED_BYTES = 256 << 20
_UNKNOWN = 0.05  # share of a split with labels that train lacks, from which training is stopped
_PROBED = 32
_ALONE = 4  # records that are predicted one by one, too
_UNSURE = 0.01  # what nearly sure answers leave for the other classes
_MODEL_ROWS = 256
_MODEL_VALUES = 2_000_000  # values of all inputs together to look at


@dataclass
class Preflight:
    """What was found before training."""

    findings: list[Finding] = field(default_factory=list)
    probe: TrainingProbe | None = None
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    gradients: dict[str, float | None] | None = None  # of the first rows, by weight
    reward: float | None = None  # the loss of right answers, as a share of that of guessing
    alone: float | None = None  # how far a prediction moves when its record is fed alone

    @property
    def blocking(self) -> list[Finding]:
        """Findings that make training pointless; those that are merely likely, or compare splits, stop nothing."""
        proven = [
            finding for finding in self.findings if finding.severity == "error" and finding.confidence == "proven"
        ]
        return [finding for finding in proven if not finding.rule.startswith("SPL")]


def look_before(setup: Setup) -> Preflight:
    """Check the data, then the model, then try a few steps on one batch."""
    begun, out = time.perf_counter(), Preflight()
    problem, options = setup.problem, setup.options
    out.findings += _of_data(setup, out.notes)
    values = sum(int(np.prod([size or 1 for size in given.shape])) for given in problem.inputs)
    rows = int(np.clip(_MODEL_VALUES // max(values, 1), _PROBED, _MODEL_ROWS))
    arrays, labels = rows_of(setup.splits.train, problem, options, most=rows)
    facts = look_at_model(setup.learner.model, None)
    if not options.is_trees:
        _look_at_network(setup, facts, arrays, labels, out)
    out.findings += _of_inputs(setup, facts, arrays, out)
    if not out.blocking and not options.is_trees:
        out.probe = _probe(setup, facts, arrays, labels, out.notes)
    if out.probe is not None:
        found = [finding for rule in rules_for("probe", "before") for finding in rule.run(out.probe)]
        out.findings += [finding for finding in found if finding.confidence != "hint"]
    out.findings = [f for f in out.findings if not f.rule.startswith(tuple(options.ignore) or "-")]
    out.seconds = time.perf_counter() - begun
    return out


def _look_at_network(setup: Setup, facts: ModelFacts, arrays: dict[str, Array], labels: Array, out: Preflight) -> None:
    """Shapes and ranges, the head, and whether gradients reach the weights."""
    out.findings += [*_of_model(setup, arrays, labels), *_of_head(setup, facts)]
    if head_problem(setup.learner.model, setup.target) is None:
        first = {name: array[:_PROBED] for name, array in arrays.items()}
        out.gradients = setup.learner.gradients(arrange(first), labels[:_PROBED])
        out.reward = _reward(setup, labels[:_PROBED])
        out.alone = _moves_alone(setup, first)


def _of_data(setup: Setup, notes: list[str]) -> list[Finding]:
    """The data checks that matter for training, on as much as can be read in seconds."""
    splits, target, options = setup.splits, setup.target, setup.options
    paths, is_whole = _within(splits, _CHECKED_BYTES)
    if not is_whole:
        notes.append(f"the data checks read only {len(paths):,} shards; to check all: bushel check {splits.data.where}")
    records = len(splits.train)
    buffer = records if not splits.train.is_sequential else min(records, options.shuffle_buffer)
    plan = ReadingPlan(
        options.batch_size,
        buffer if options.shuffle else 1,
        len(target.classes) or None,
        is_regression=target.kind == "regression",
    )
    report = check(paths, label=target.label, plan=plan, select=_before("data"), ignore=options.ignore)
    return [_tempered(finding, splits) for finding in report if finding.severity != "info"]


def _tempered(finding: Finding, splits: Splits) -> Finding:
    """A warning where few records have labels that train lacks: all others can be learned and judged."""
    if finding.name != "label-missing-from-train":
        return finding
    judged, unknown = splits.data[finding.evidence["subject"]], sum(finding.evidence["measured"].values())
    return msgspec.structs.replace(finding, severity="warning") if unknown < _UNKNOWN * len(judged) else finding


def _within(splits: Splits, most: int) -> tuple[list[str], bool]:
    """Shards of every split, as many as fit; the folder itself if all do."""
    each = list(splits.data.splits.values())
    sizes = {path: path.stat().st_size for split in each for path in split.paths}
    if sum(sizes.values()) <= most:
        return ([splits.data.where] if splits.data.manifest else [str(path) for path in sizes]), True
    chosen: list[str] = []
    for split in each:
        left = most // len(each)
        for number, path in enumerate(split.paths):
            left -= sizes[path]
            if left < 0 and number:
                break
            chosen.append(str(path))
    return chosen, False


def _of_model(setup: Setup, arrays: dict[str, Array], labels: Array) -> list[Finding]:
    """Shapes, types and range of what the model is fed against its first layers."""
    if any(array.dtype.kind not in "biuf" for array in arrays.values()):
        return []
    form = setup.learner.compiled.form
    columns = {**arrays, setup.target.label: label_form(form, setup.target, labels) if form == "hot" else labels}
    report = check(
        columns,
        model=setup.learner.model,
        label=setup.target.label,
        plan=ReadingPlan(batch_size=setup.options.batch_size),
        select=_before("model"),
    )
    return [finding for finding in report if finding.severity != "info"]


def _of_head(setup: Setup, facts: ModelFacts) -> list[Finding]:
    """The number of outputs against the labels."""
    model, target, wanted = setup.learner.model, setup.target, setup.target.outputs
    units, problem = outputs_of(model), head_problem(model, target)
    if problem is None and (units is None or units <= max(2, wanted)):
        return []
    found = Finding(
        problem or f"the output has {units} units, and there are {wanted} classes",
        severity="error" if problem else "warning",
        evidence={"measured": units, "expected": wanted, "model": facts.name},
        help=[f"use {wanted} unit{'' if wanted == 1 else 's'}"],
    )
    return [finding_of(head_does_not_fit_labels, found)]


def _of_inputs(setup: Setup, facts: ModelFacts, arrays: dict[str, Array], seen: Preflight) -> list[Finding]:
    """What the first rows alone show: a single class, constant or tiny inputs, weights without gradients."""
    watch = Watch.of(setup.target)
    for _ in range(2):  # a rule wants to see it twice
        watch.look(arrays)
    known = facts_so_far(setup.problem, setup.options, facts, watch)
    known.gradients, known.reward, known.alone = seen.gradients, seen.reward, seen.alone
    return [finding for rule in rules_for("run", "before") for finding in rule.run(known)]


def _reward(setup: Setup, labels: Array) -> float | None:
    """The loss of nearly sure right answers, divided by that of answering all classes alike; None for numbers."""
    target, compiled, model = setup.target, setup.learner.compiled, setup.learner.model
    units = outputs_of(model) or target.outputs
    if target.kind == "regression":
        return None
    hot = labels if target.kind == "multi_label" else np.eye(max(2, units))[labels]
    right = np.clip(hot, _UNSURE, 1 - _UNSURE)
    guess = np.full_like(right, 0.5 if target.kind == "multi_label" else 1 / right.shape[1])
    losses = []
    for shares in (right, guess):
        shown = shares[:, 1:2] if units == 1 and target.is_classes else shares
        if compiled.gives == "logits":
            is_alone = units == 1 or target.kind == "multi_label"
            shown = np.log(shown) - np.log1p(-shown) if is_alone else np.log(shown)
        y = label_form(compiled.form, target, labels)
        try:
            found = model.compute_loss(y=y, y_pred=as_tensors(shown.astype(np.float32)))
        except Exception:  # a custom loss may want what only the model itself gives
            return None
        losses.append(float(as_array(found)) - sum(float(as_array(loss)) for loss in model.losses))
    return losses[0] / losses[1] if losses[1] > 0 else None


def _moves_alone(setup: Setup, arrays: dict[str, Array]) -> float | None:
    """How far predictions differ from those for the same records one by one, as a share of the largest."""
    ask = setup.learner.predictor.call
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # these warnings of Keras become findings
        together = np.asarray(ask(arrange(arrays)), np.float64)
        each = [ask(arrange({name: array[at : at + 1] for name, array in arrays.items()})) for at in range(_ALONE)]
    alone = np.concatenate([np.asarray(one, np.float64) for one in each if len(one)])
    away = np.abs(together[: len(alone)] - alone).max(initial=0.0)
    return float(away / max(1e-6, np.abs(together).max(initial=0.0))) if len(together) > 1 else None


def _probe(
    setup: Setup, facts: ModelFacts, arrays: dict[str, Array], labels: Array, notes: list[str]
) -> TrainingProbe | None:
    target, compiled = setup.target, setup.learner.compiled
    if facts.loss is None:
        facts.loss = compiled.loss
    rows, steps = probe_size(facts.model, _PROBED)
    if not steps:
        notes.append("the trial on one batch was skipped, because the model is large")
        return None
    chosen = np.unique(np.linspace(0, len(labels) - 1, min(rows, len(labels))).astype(np.int64))
    x = arrange({name: arrays[name][chosen] for name in setup.problem.preparation.names})
    y = label_form(compiled.form, target, labels[chosen])
    classes = len(np.unique(labels)) if target.is_classes else max(2, target.outputs)
    try:
        return probe_batch(facts, x, y, classes=classes, steps=steps)
    except Exception as error:  # a custom model may refuse to be copied in any way
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        notes.append(f"the trial on one batch was skipped, because the model cannot be copied: {why}")
        return None


def _before(subject: Subject) -> list[str]:
    """The ids of the rules about this that run before training."""
    return [rule.id for rule in rules_for(subject, "before")]
