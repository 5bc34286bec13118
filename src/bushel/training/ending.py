"""The end of a run: evaluate the best weights, reach a verdict, and write the results."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bushel import contract
from bushel.checking import Finding
from bushel.checking.rules.model_rules import look_at_model
from bushel.checking.rules.registry import causes_first
from bushel.checking.rules.run_rules import RunFacts
from bushel.storage import write_whole
from bushel.training.inputs.splits import feed_of, some_records
from bushel.training.loop.loop import Training
from bushel.training.predictions import Predictions
from bushel.training.preflight import Preflight
from bushel.training.report.mistakes import fed_samples, worst_mistakes
from bushel.training.report.page import Shown, report_page
from bushel.training.run_folder import RunFile, Trained, save_predictions, write_json, write_table
from bushel.training.setup import Setup
from bushel.training.verdict.baselines import Baselines
from bushel.training.verdict.metrics import class_table, confusion, measure_of, metrics
from bushel.training.verdict.verdict import Verdict, add_scores, blocked, judge, run_findings
from bushel.training.verdict.watch import facts_so_far

__all__ = ["end_run", "stop_before"]

REPORT = "report.html"
_TRAIN_ROWS = 512  # records of the train split to evaluate without augmentation


def stop_before(setup: Setup, folder: Path, run: RunFile, preflight: Preflight) -> Trained:
    """End a run that preflight stopped: its findings are in the metrics and in the report."""
    trained = Trained(
        folder=folder,
        verdict=blocked(preflight.blocking),
        findings=causes_first(preflight.findings),
        metrics={},
        history=[],
        seconds={"preflight": preflight.seconds},
    )
    write_json(folder / "metrics.json", _summary(trained, run))
    shown = Shown(fed=fed_samples(setup), model=setup.learner.summary, notes=[*setup.notes, *preflight.notes])
    _write_report(trained, run, shown)
    return trained


def end_run(training: Training, run: RunFile, preflight: Preflight | None, baselines: Baselines) -> Trained:
    """Measure the best weights, judge them, and write the folder."""
    begun = time.perf_counter()
    setup, splits, target = training.setup, training.setup.splits, training.setup.target
    moved = training.moved
    training.use_best()
    found = training.predict(splits.judged)
    measured = {splits.judged.name if splits.test is not None else "val": metrics(target, found)}
    if splits.test is not None:
        measured = {"val": metrics(target, training.predict(splits.val)), **measured}
    verdict = judge(target, found, baselines, seed=setup.options.seed)
    early = preflight.findings if preflight is not None else []
    facts = _facts(training, preflight, verdict, baselines)
    facts.moved = moved
    findings = causes_first(_once([*early, *run_findings(facts, setup.options.ignore)]))
    causes = [finding.to_json() for finding in findings] if not verdict.learned else []
    training.state.seconds["evaluation"] = time.perf_counter() - begun
    trained = Trained(
        folder=training.folder,
        verdict=msgspec.structs.replace(verdict, causes=causes),
        findings=findings,
        metrics=measured,
        history=training.state.history,
        seconds=dict(training.state.seconds),
    )
    _write(training, trained, run, found)
    _write_contract(training)
    shown = Shown(
        found=found,
        mistakes=worst_mistakes(splits.judged, setup.problem, found),
        fed=fed_samples(setup),
        best_epoch=training.state.best_epoch or None,
        model=setup.learner.summary,
        notes=setup.notes,
    )
    _write_report(trained, run, shown)
    return trained


def _write_report(trained: Trained, run: RunFile, shown: Shown) -> None:
    with write_whole(trained.folder / REPORT, sync=False) as file:
        file.write(report_page(trained, run, shown).encode("utf-8", "backslashreplace"))


def _once(findings: list[Finding]) -> list[Finding]:
    """Findings without repeats: some rules run both before and after training."""
    found = {(finding.rule, *(place.feature for place in finding.locations)): finding for finding in reversed(findings)}
    return [finding for finding in findings if finding in found.values()]


def _facts(training: Training, preflight: Preflight | None, verdict: Verdict, baselines: Baselines) -> RunFacts:
    setup, target = training.setup, training.setup.target
    model = look_at_model(setup.learner.model, None)
    facts = facts_so_far(setup.problem, setup.options, model, training.watch)
    if preflight is not None:
        facts.probe, facts.gradients = preflight.probe, preflight.gradients
    facts.steps, facts.records = training.state.step, len(setup.splits.train)
    facts.is_improving = training.state.lowest_epoch == training.state.epoch and training.state.stopped is None
    facts.cut = {given.name: given.cut for given in setup.problem.inputs if given.cut}
    facts.dropout, facts.penalty = model.dropout, model.penalty
    some = feed_of(some_records(setup.splits.train, _TRAIN_ROWS), setup.problem, setup.options)
    seen = setup.learner.predictor.over(some, most=_TRAIN_ROWS)
    on_train = measure_of(target, seen.labels, seen.outputs)(np.arange(len(seen)))
    return add_scores(facts, target, verdict, baselines, on_train)


def _write_contract(training: Training) -> None:
    """Write how to feed the model, with golden inputs and the outputs for them."""
    setup = training.setup
    predictor = setup.learner.predictor
    made = contract.make(
        setup.splits.data,
        setup.problem.preparation,
        split=setup.splits.train.name,
        target=setup.target,
        gives=predictor.gives,
        outputs=lambda x: np.asarray(predictor.call(x)),
    )
    contract.write(made, training.folder / contract.CONTRACT_NAME)


def _summary(trained: Trained, run: RunFile) -> dict[str, Any]:
    """What metrics.json holds."""
    target = {"task": run.task.kind, "classes": run.task.classes, "records": run.records}
    return {name: value for name, value in trained.to_json().items() if name != "run"} | target


def _write(training: Training, trained: Trained, run: RunFile, found: Predictions) -> None:
    folder, target, state = trained.folder, training.setup.target, training.state
    training.save_model()
    save_predictions(folder, training.setup.splits.judged, target, found)
    more = {
        "best_epoch": state.best_epoch,
        "epochs": state.epoch,
        "stopped": state.stopped,
        "notes": training.setup.notes,
    }
    write_json(folder / "metrics.json", {**_summary(trained, run), **more})
    rows = [
        {"split": split, "metric": name, "value": value}
        for split, values in trained.metrics.items()
        for name, value in values.items()
    ]
    write_table(folder / "metrics.csv", rows)
    write_json(folder / "history.json", trained.history)
    write_table(folder / "history.csv", trained.history)
    if target.kind != "regression":
        write_table(folder / "classes.csv", class_table(target, found))
    if target.is_classes:
        table = confusion(target, found).tolist()
        named = [dict(zip(target.classes, row, strict=True)) for row in table]
        write_table(
            folder / "confusion.csv", [{"class": n, **row} for n, row in zip(target.classes, named, strict=True)]
        )
