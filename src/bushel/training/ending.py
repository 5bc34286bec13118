"""The end of a run: the best weights, the last measurement, the verdict, and all that is written."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bushel import contract
from bushel.checking.rules.registry import causes_first
from bushel.storage import write_whole
from bushel.training.loop.loop import Training
from bushel.training.loop.model_steps import predict, rows_of
from bushel.training.preflight import Baselines, Preflight
from bushel.training.report.page import report_page
from bushel.training.run_folder import MODEL, Run, Trained, write_json, write_table
from bushel.training.verdict.mistakes import worst_mistakes
from bushel.training.verdict.scores import Predictions, class_table, confusion, losses_of, measure_of, metrics
from bushel.training.verdict.verdict import blocked, judge, run_facts, run_findings

__all__ = ["end_run", "stop_before"]

REPORT = "report.html"
_TRAIN_ROWS = 512  # of the train split that are measured without augmentation


def stop_before(folder: Path, run: Run, preflight: Preflight) -> Trained:
    """End a run that was not begun, because of what was found."""
    verdict = blocked(preflight)
    seconds = {"preflight": preflight.seconds}
    trained = Trained(
        folder=folder,
        verdict=verdict,
        findings=causes_first(preflight.findings),
        metrics={},
        history=[],
        seconds=seconds,
    )
    write_json(folder / "metrics.json", summary_of(trained, run))
    return trained


def end_run(
    training: Training, run: Run, preflight: Preflight | None, baselines: Baselines, *, notes: list[str]
) -> Trained:
    """Measure the best weights, judge them, and write the folder."""
    begun = time.perf_counter()
    steps, parts, options, task = training.steps, training.parts, training.options, training.steps.task
    if training.best is not None:
        steps.model.set_weights(training.best)
    found = predict(steps, parts.judged, options)
    measured = {parts.judged.name if parts.test is not None else "val": metrics(task, found)}
    if parts.test is not None:
        measured = {"val": metrics(task, predict(steps, parts.val, options)), **measured}
    verdict = judge(task, found, baselines, seed=options.seed)
    facts = run_facts(
        task,
        steps.preparation,
        options,
        steps.model,
        training.watch,
        preflight,
        verdict,
        baselines=baselines,
        train_score=_train_score(training),
    )
    findings = causes_first(
        [*(preflight.findings if preflight is not None else []), *run_findings(facts, options.ignore)]
    )
    causes = [finding.to_json() for finding in findings] if not verdict.learned else []
    verdict = msgspec.structs.replace(verdict, causes=causes)
    training.state.seconds["evaluation"] = time.perf_counter() - begun
    trained = Trained(
        folder=training.folder,
        verdict=verdict,
        findings=findings,
        metrics=measured,
        history=training.state.history,
        seconds=dict(training.state.seconds),
    )
    _write(training, trained, run, found, notes)
    _write_contract(training, run)
    mistakes = worst_mistakes(parts.judged, steps.preparation, task, found)
    with write_whole(training.folder / REPORT, sync=False) as file:
        file.write(report_page(trained, run, found, mistakes, notes).encode("utf-8", "backslashreplace"))
    return trained


def _write_contract(training: Training, run: Run) -> None:
    """What whoever serves the model must feed it, with golden inputs and what the model says of them."""
    steps, split = training.steps, training.parts.train
    given = steps.preparation
    preparation = contract.Preparation(
        features=given.columns, transforms=(*given.transforms, *given.scaling), layout=given.layout
    )
    made = contract.make(
        training.parts.data,
        preparation,
        split=split.name,
        label=steps.task.label,
        outputs=lambda x: np.asarray(steps.raw_outputs(x)),
    )
    made = msgspec.structs.replace(made, task=run.task.kind, classes=run.task.classes)
    contract.write(made, training.folder / "contract.json")


def _train_score(training: Training) -> float:
    """The primary number on some records of train, without augmentation."""
    steps, task = training.steps, training.steps.task
    arrays, labels = rows_of(training.parts.train, steps.preparation, task, training.options, most=_TRAIN_ROWS)
    names, size = steps.preparation.names, training.options.batch_size
    outputs = []
    for at in range(0, len(labels), size):
        part = {name: arrays[name][at : at + size] for name in names}
        outputs.append(steps.predict(part[names[0]] if len(names) == 1 else part))
    said = np.concatenate(outputs)
    seen = Predictions(labels, said, losses_of(task, labels, said), np.arange(len(labels)))
    return measure_of(task, seen.labels, seen.outputs)(np.arange(len(seen)))


def summary_of(trained: Trained, run: Run) -> dict[str, Any]:
    """What metrics.json holds."""
    return {
        "verdict": msgspec.to_builtins(trained.verdict),
        "metrics": trained.metrics,
        "findings": [finding.to_json() for finding in trained.findings],
        "seconds": trained.seconds,
        "task": run.task.kind,
        "classes": run.task.classes,
        "records": run.records,
    }


def _write(training: Training, trained: Trained, run: Run, found: Predictions, notes: list[str]) -> None:
    folder, task = trained.folder, training.steps.task
    training.steps.model.save(folder / MODEL)
    state = training.state
    more = {"best_epoch": state.best_epoch, "epochs": state.epoch, "stopped": state.stopped, "notes": notes}
    write_json(folder / "metrics.json", {**summary_of(trained, run), **more})
    rows = [{"split": split, "metric": name, "value": value} for split, m in trained.metrics.items()
            for name, value in m.items()]  # fmt: skip
    write_table(folder / "metrics.csv", rows)
    write_json(folder / "history.json", trained.history)
    write_table(folder / "history.csv", trained.history)
    if task.kind != "regression":
        write_table(folder / "classes.csv", class_table(task, found))
    if task.is_classes:
        table = confusion(task, found)
        write_table(
            folder / "confusion.csv",
            [
                {"class": name, **dict(zip(task.classes, row.tolist(), strict=True))}
                for name, row in zip(task.classes, table, strict=True)
            ],
        )
