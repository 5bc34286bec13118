"""What is looked at in seconds before the first epoch: the data, the model beside it, one batch, and what to beat."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.checking import Finding, Plan, check
from bushel.checking.rules.model_rules import ModelFacts, head_does_not_fit_labels, look_at_model
from bushel.checking.rules.probe_rules import Probe, probe_batch
from bushel.checking.rules.registry import Subject, finding_of, rules_for
from bushel.training.inputs.inputs import Preparation
from bushel.training.inputs.split_roles import Parts
from bushel.training.inputs.task import Task
from bushel.training.loop.model_steps import feature_rows, label_form, rows_of
from bushel.training.loop.watch import Watch
from bushel.training.models.compiling import Compiled, outputs_of
from bushel.training.options import Options
from bushel.training.verdict.baselines import ROWS, constant_outputs, fit_linear, linear_features, linear_outputs
from bushel.training.verdict.run_facts import first_facts

__all__ = ["Baselines", "Preflight", "fit_baselines", "look_before"]

Array = NDArray[Any]

_CHECKED_BYTES = 256 << 20
_PROBED = 32
_PROBE_SECONDS = 4.0
_MODEL_ROWS = 256
_MODEL_VALUES = 2_000_000  # that are looked at of all inputs together


@dataclass
class Baselines:
    """What is said without the model, of the records that judge it (or a part of them, by number)."""

    numbers: NDArray[np.int64]
    labels: Array
    outputs: dict[str, Array]  # constant, linear; and linear that learned from augmented inputs


@dataclass
class Preflight:
    """What was found before training."""

    findings: list[Finding] = field(default_factory=list)
    probe: Probe | None = None
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def blocking(self) -> list[Finding]:
        """What makes it pointless to begin."""
        return [finding for finding in self.findings if finding.severity == "error" and finding.confidence != "hint"]


def look_before(
    parts: Parts, task: Task, preparation: Preparation, model: Any, compiled: Compiled, options: Options
) -> Preflight:
    """Run the checks of data that block, then those of the model, then a few steps on one batch."""
    begun, out = time.perf_counter(), Preflight()
    out.findings += _of_data(parts, task, options, out.notes)
    values = sum(int(np.prod([size or 1 for size in given.shape])) for given in preparation.inputs)
    rows = int(np.clip(_MODEL_VALUES // max(values, 1), _PROBED, _MODEL_ROWS))
    arrays, labels = rows_of(parts.train, preparation, task, options, most=rows)
    facts = look_at_model(model, None)
    out.findings += _of_model(model, facts, task, arrays, labels, options)
    out.findings += _of_inputs(task, facts, preparation, arrays, options)
    if not out.blocking:
        out.probe = _probe(facts, task, preparation, compiled, arrays, labels, out.notes)
    if out.probe is not None:
        found = [finding for rule in rules_for("probe", "before") for finding in rule.run(out.probe)]
        out.findings += [finding for finding in found if finding.confidence != "hint"]
    known = set(options.ignore)
    out.findings = [finding for finding in out.findings if not finding.rule.startswith(tuple(known) or ("-",))]
    out.seconds = time.perf_counter() - begun
    return out


def _of_data(parts: Parts, task: Task, options: Options, notes: list[str]) -> list[Finding]:
    """The families of checks that can make training pointless, on as much as can be read in seconds."""
    paths, is_whole = _within(parts, _CHECKED_BYTES)
    if not is_whole:
        notes.append(f"the data checks read {len(paths):,} of the shards; for all: bushel check {parts.data.where}")
    train = parts.train
    records = len(train)
    buffer = records if not train.is_sequential else min(records, options.shuffle_buffer)
    plan = Plan(options.batch_size, buffer if options.shuffle else 1, len(task.classes) or None)
    report = check(paths, label=task.label, plan=plan, select=_before("data"), ignore=options.ignore)
    return [finding for finding in report if finding.severity != "info"]


def _within(parts: Parts, most: int) -> tuple[list[str], bool]:
    """Shards of every split, as many as fit; the folder itself where all do."""
    splits = list(parts.data.splits.values())
    sizes = {path: path.stat().st_size for split in splits for path in split.paths}
    if sum(sizes.values()) <= most:
        return ([parts.data.where] if parts.data.manifest else [str(path) for path in sizes]), True
    chosen: list[str] = []
    for split in splits:
        left = most // len(splits)
        for number, path in enumerate(split.paths):
            left -= sizes[path]
            if left < 0 and number:
                break
            chosen.append(str(path))
    return chosen, False


def _of_model(
    model: Any, facts: ModelFacts, task: Task, arrays: dict[str, Array], labels: Array, options: Options
) -> list[Finding]:
    """Shapes, types and range of what the model is fed against its first layers; its head against the labels."""
    columns: dict[str, Any] = {name: array for name, array in arrays.items() if array.dtype.kind in "biuf"}
    found: list[Finding] = []
    if len(columns) == len(arrays):
        if task.is_classes:
            columns[task.label] = labels
        plan = Plan(batch_size=options.batch_size)
        report = check(columns, model=model, label=task.label, plan=plan, select=_before("model"))
        found += [finding for finding in report if finding.severity != "info"]
    units, wanted = outputs_of(model), task.outputs
    if units is not None and units != wanted and not (task.kind == "binary" and units == 2):
        found.append(
            finding_of(
                head_does_not_fit_labels,
                Finding(
                    f"the output has {units} units, and {wanted} are needed for {task.kind.replace('_', ' ')}",
                    severity="error" if units < wanted or task.kind != "multi_class" else "warning",
                    evidence={"measured": units, "expected": wanted, "model": facts.name},
                    help=[f"use {wanted} units"],
                ),
            )
        )
    return found


def _of_inputs(
    task: Task, facts: ModelFacts, preparation: Preparation, arrays: dict[str, Array], options: Options
) -> list[Finding]:
    """What is told of a run by its first rows alone: one class, constant inputs, inputs that are nearly nothing."""
    watch = Watch.of(task)
    for _ in range(2):  # a rule wants to see it twice
        watch.look(arrays)
    known = first_facts(task, preparation, options, facts, watch)
    return [finding for rule in rules_for("run", "before") for finding in rule.run(known)]


def _probe(
    facts: ModelFacts,
    task: Task,
    preparation: Preparation,
    compiled: Compiled,
    arrays: dict[str, Array],
    labels: Array,
    notes: list[str],
) -> Probe | None:
    if facts.loss is None:
        facts.loss = compiled.loss
    chosen = np.unique(np.linspace(0, len(labels) - 1, min(_PROBED, len(labels))).astype(np.int64))
    names = preparation.names
    x: Any = {name: arrays[name][chosen] for name in names}
    y = label_form(compiled.form, task, labels[chosen])
    classes = len(np.unique(labels)) if task.is_classes else max(2, task.outputs)
    try:
        bare = x[names[0]] if len(names) == 1 else x
        return probe_batch(facts, bare, y, classes=classes, seconds=_PROBE_SECONDS)
    except Exception as error:  # a model of one's own may refuse to be copied in any way
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        notes.append(f"one batch was not tried, because the model cannot be copied: {said}")
        return None


def _before(subject: Subject) -> list[str]:
    """The ids of the rules about this that are asked before training."""
    return [rule.id for rule in rules_for(subject, "before")]


def fit_baselines(
    parts: Parts, task: Task, preparation: Preparation, options: Options, augmentation: Sequence[Any]
) -> Baselines:
    """Fit what the model has to beat to the train split, and have it judged."""

    def flat(arrays: dict[str, Array]) -> Array:
        return linear_features(preparation, arrays)

    features, labels = feature_rows(parts.train, preparation, task, options, flat, most=ROWS)
    judged, truth = feature_rows(parts.judged, preparation, task, options, flat, most=ROWS)
    outputs = {
        "constant": constant_outputs(task, labels, len(truth)),
        "linear": linear_outputs(task, fit_linear(task, features, labels), judged),
    }
    if augmentation:
        changed, labels = feature_rows(
            parts.train, preparation, task, options, flat, most=ROWS, augmentation=tuple(augmentation)
        )
        outputs["augmented"] = linear_outputs(task, fit_linear(task, changed, labels), judged)
    count = len(parts.judged)
    is_stream = parts.judged.is_sequential
    numbers = np.arange(len(truth)) if is_stream else np.unique(np.linspace(0, count - 1, min(ROWS, count)).astype(int))
    return Baselines(numbers.astype(np.int64), truth, outputs)
