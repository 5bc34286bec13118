"""One run of training, from a dataset to a judged model with its contract and report."""

from __future__ import annotations

import contextlib
import importlib.metadata
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import __version__, contract
from bushel.checking import Finding
from bushel.checking.findings import causes_first
from bushel.checking.rules.model_rules import look_at_model
from bushel.checking.rules.run_rules import RunFacts
from bushel.reading import Dataset
from bushel.storage import AnyPath, as_path, on_disk, write_whole
from bushel.training.contest import Contest, hold_contest, run_rival
from bushel.training.inputs.splits import feed_of, find_groups, some_records
from bushel.training.loop.framework import settings_for
from bushel.training.loop.loop import Progress, Training
from bushel.training.loop.starting import start_training
from bushel.training.options import Options
from bushel.training.predictions import Predictions
from bushel.training.preflight import Preflight, look_before
from bushel.training.report import ReportContents, fed_samples, report_page, worst_mistakes
from bushel.training.run_folder import (
    RUN,
    RunFile,
    Trained,
    begin_folder,
    make_folder,
    options_of,
    options_to_json,
    plain,
    read_run,
    same_run,
    save_predictions,
    write_json,
    write_table,
)
from bushel.training.setup import Setup, set_up
from bushel.training.verdict.baselines import Baselines, fit_baselines
from bushel.training.verdict.metrics import class_table, confusion, measure_of, metrics
from bushel.training.verdict.noise import estimate_noise, least_likely
from bushel.training.verdict.verdict import Verdict, add_scores, blocked, facts_so_far, judge, run_findings

__all__ = ["Listener", "end_run", "train"]

REPORT = "report.html"
_OF_WEAKNESS = ("cannot-overfit-one-batch", "inputs-not-informative")  # what a model that is too weak shows, too
_SUSPECTS = 20  # records whose labels are least likely, to list
_LEAST_GROUPS = 3  # fewer say nothing of how much groups differ
_TRAIN_ROWS = 512  # records of the train split to evaluate without augmentation


def _stop_before(setup: Setup, folder: Path, run: RunFile, preflight: Preflight) -> Trained:
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
    shown = ReportContents(fed=fed_samples(setup), model=setup.learner.summary, notes=[*setup.notes, *preflight.notes])
    _write_report(trained, run, shown)
    return trained


def end_run(
    training: Training,
    run: RunFile,
    preflight: Preflight | None,
    baselines: Baselines,
    contest: Contest | None = None,
) -> Trained:
    """Measure the best weights, judge them, and write the folder."""
    assert training.folder is not None
    begun = time.perf_counter()
    setup, splits, target = training.setup, training.setup.splits, training.setup.target
    moved = training.moved
    training.use_best()
    found = training.predict(splits.judged)
    measured = {splits.judged.name if splits.test is not None else "val": metrics(target, found)}
    if splits.test is not None:
        measured = {"val": metrics(target, training.predict(splits.val)), **measured}
    verdict = judge(
        target,
        found,
        baselines,
        seed=setup.options.seed,
        moved=moved,
        is_linear=setup.options.is_linear,
        groups=_groups(training, len(found)),
    )
    early = preflight.findings if preflight is not None else []
    facts = _facts(training, preflight, verdict, baselines)
    held = None if contest is None else contest.held.get(contest.chosen)
    suspects = _look_for_noise(facts, training, {"train": held, splits.judged.name: found}) if target.is_classes else []
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
    _write(training, trained, run, found, contest)
    _write_contract(training)
    shown = ReportContents(
        found=found,
        mistakes=worst_mistakes(splits.judged, setup.problem, found),
        fed=fed_samples(setup),
        best_epoch=training.state.best_epoch or None,
        model=setup.learner.summary,
        notes=setup.notes,
        suspects=suspects,
        candidates=contest.table(target) if contest is not None else None,
    )
    _write_report(trained, run, shown)
    return trained


def _look_for_noise(
    facts: RunFacts, training: Training, found: dict[str, Predictions | None]
) -> list[tuple[str, str, str, float]]:
    """Add to the facts how many labels seem to be wrong; returns the likeliest: record, label, prediction, chance."""
    target, suspects = training.setup.target, []
    known = {name: one for name, one in found.items() if one is not None}
    parts = ([getattr(one, part) for one in known.values()] for part in ("labels", "outputs"))
    noise = estimate_noise(Predictions.of(target, *(np.concatenate(part) for part in parts)))
    if noise is None:
        return []
    facts.noise, facts.noise_low = noise.share, noise.low
    for name, one in known.items():
        for at in least_likely(one).tolist():
            label, best = int(one.labels[at]), int(one.outputs[at].argmax())
            chance = float(one.outputs[at, label])
            suspects.append((f"{name}:{one.rows[at]}", target.classes[label], target.classes[best], chance))
    suspects.sort(key=lambda suspect: suspect[3])
    facts.suspects = [where for where, *_ in suspects]
    return suspects[:_SUSPECTS] if noise.low > 0 else []


def _groups(training: Training, records: int) -> NDArray[np.int64] | None:
    """The group of each record that judges; None if records stand alone, or if some were skipped."""
    setup = training.setup
    groups = find_groups(setup.splits, setup.options.group)
    if groups is None or len(setup.splits.judged) != records:
        return None
    codes = groups.codes(setup.splits.judged)
    count = len(np.unique(codes))
    if count == records or count < _LEAST_GROUPS:
        return None
    said = f"intervals are computed over the {count:,} groups of {groups.name!r}"
    setup.notes.append(f"{said} ({groups.why}; --group none turns this off)")
    return codes


def _write_report(trained: Trained, run: RunFile, shown: ReportContents) -> None:
    with write_whole(trained.folder / REPORT, sync=False) as file:
        file.write(report_page(trained, run, shown).encode("utf-8", "backslashreplace"))


def _once(findings: list[Finding]) -> list[Finding]:
    """Findings without repeats, as some rules run both before and after training; and without symptoms of others."""
    if any(finding.name == "model-too-weak" for finding in findings):  # it learns as little from any inputs
        findings = [finding for finding in findings if finding.name not in _OF_WEAKNESS]
    found = {(finding.rule, *(place.feature for place in finding.locations)): finding for finding in reversed(findings)}
    return [finding for finding in findings if finding in found.values()]


def _facts(training: Training, preflight: Preflight | None, verdict: Verdict, baselines: Baselines) -> RunFacts:
    setup, target = training.setup, training.setup.target
    model = look_at_model(setup.learner.model, None)
    facts = facts_so_far(setup.problem, setup.options, model, training.watch)
    if preflight is not None:
        facts.probe, facts.gradients = preflight.probe, preflight.gradients
        facts.reward, facts.alone = preflight.reward, preflight.alone
    watch, best = training.watch, training.state.best_epoch
    if 0 < best <= len(watch.shares):  # that is the model that is judged
        facts.predicted, facts.share = watch.predicted[best - 1], watch.shares[best - 1]
    facts.steps, facts.records = training.state.step, len(setup.splits.train)
    facts.is_improving = training.state.lowest_epoch == training.state.epoch and training.state.stopped is None
    facts.cut = {given.name: given.cut for given in setup.problem.inputs if given.cut}
    facts.dropout, facts.penalty = model.dropout, model.penalty
    facts.decay = 0.0 if setup.options.is_linear else model.decay
    facts.weighed = _weighed_most(setup)
    some = feed_of(some_records(setup.splits.train, _TRAIN_ROWS), setup.problem, setup.options)
    seen = setup.learner.predictor.over(some, most=_TRAIN_ROWS)
    on_train = measure_of(target, seen.labels, seen.outputs)(np.arange(len(seen)))
    return add_scores(facts, target, verdict, baselines, on_train)


def _weighed_most(setup: Setup) -> tuple[str, float, float] | None:
    """The class with the largest part of the loss: its share of that, and of the records."""
    if setup.class_weights is None:
        return None
    counts = np.array(setup.target.counts, np.float64)
    weighed = counts * setup.class_weights
    most = int(weighed.argmax())
    return setup.target.classes[most], float(weighed[most] / weighed.sum()), float(counts[most] / counts.sum())


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
    assert training.folder is not None
    contract.write(made, training.folder / contract.CONTRACT_NAME)


def _summary(trained: Trained, run: RunFile) -> dict[str, Any]:
    """What metrics.json holds."""
    target = {"task": run.task.kind, "classes": run.task.classes, "records": run.records}
    return {name: value for name, value in trained.to_json().items() if name != "run"} | target


def _write(training: Training, trained: Trained, run: RunFile, found: Predictions, contest: Contest | None) -> None:
    folder, target, state = trained.folder, training.setup.target, training.state
    training.save_model()
    save_predictions(folder, training.setup.splits.judged, target, found)
    more = {
        "best_epoch": state.best_epoch,
        "epochs": state.epoch,
        "stopped": state.stopped,
        "notes": training.setup.notes,
        **({"candidates": contest.to_json()} if contest is not None else {}),
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


@dataclass
class Listener:
    """Callbacks for what a run reports: its choices, progress, findings and notes."""

    progress: Callable[[Progress], None] = lambda _: None
    finding: Callable[[Finding], None] = lambda _: None
    note: Callable[[str], None] = lambda _: None
    choice: Callable[[str], None] = lambda _: None


def train(
    data: AnyPath | Iterable[AnyPath] | Dataset | None = None,
    options: Options | None = None,
    *,
    out: AnyPath,
    resume: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
) -> Trained:
    """Train a model on a dataset, and report whether it learned.

    Nothing is written but the folder `out`: the model, metrics, history, logs, a report and a contract. A run that was
    stopped continues from its last checkpoint with `resume=True`, and ends with the weights that it would have had;
    data and options are then those of the run, unless they are given, and there may be more epochs.

    >>> trained = bushel.train("data", Options(epochs=5), out="runs/1")
    >>> print(trained.verdict.summary)
    """
    folder = on_disk(out, otherwise=f"out must be a folder of this machine, got {str(out)!r}")
    listener = listener or Listener()
    begin_folder(folder, resume=resume, overwrite=overwrite)
    if resume:
        before = read_run(folder)
        data, options = before.data if data is None else data, options or options_of(before, folder)
    if data is None:
        raise ValueError("data must be given, unless a run is resumed")
    options = options or Options()
    with contextlib.nullcontext() if options.is_trees else settings_for(options):
        begun = time.perf_counter()
        setup = set_up(data, options)
        run = _describe(setup)
        for line in setup.describe():
            listener.choice(line)
        for note in setup.notes:
            listener.note(note)
        if resume:
            same_run(folder, run)
        else:
            make_folder(folder)
        write_json(folder / RUN, msgspec.to_builtins(run))
        training = start_training(setup, folder, resume=resume)
        training.state.seconds.setdefault("setting up", time.perf_counter() - begun)
        preflight = None if resume or not options.preflight else _preflight(setup, listener)
        if preflight is not None:
            training.state.seconds["preflight"] = preflight.seconds
            if preflight.blocking:
                return _stop_before(setup, folder, run, preflight)
        with contextlib.closing(training.logs):
            training.tell = _telling(training, listener)
            training.run()
        begun = time.perf_counter()
        linear = training if setup.options.is_linear else None if setup.options.is_trees else run_rival(setup, "linear")
        contest = None if resume else hold_contest(training, options, linear)
        baselines = fit_baselines(setup, None if linear is None else linear.predict_best(setup.splits.judged))
        training.state.seconds["comparing"] = time.perf_counter() - begun
        if contest is not None:
            training = _keep_best(contest, training, listener)
            run = _describe(training.setup) if training.setup is not setup else run
            setup = training.setup
        is_improving = training.state.lowest_epoch == training.state.epoch == setup.epochs
        if is_improving and not training.ended_perfect and not (setup.options.is_trees or setup.options.is_linear):
            listener.note("the validation loss was still falling in the last epoch: more --epochs may help (--resume)")
        return end_run(training, run, preflight, baselines, contest)


def _keep_best(contest: Contest, training: Training, listener: Listener) -> Training:
    """Give the folder to the run whose model does best."""
    best, folder = contest.best, training.folder
    assert folder is not None
    best.setup.notes.extend(contest.notes(best.setup.target))
    for note in contest.notes(best.setup.target):
        listener.note(note)
    if best is not training:
        make_folder(folder)
        write_json(folder / RUN, msgspec.to_builtins(_describe(best.setup)))
        best.folder, best.state.seconds = folder, training.state.seconds | best.state.seconds
        best.checkpoint()
    return best


def _describe(setup: Setup) -> RunFile:
    splits = setup.splits
    named = {"train": splits.train, "val": splits.val, **({"test": splits.test} if splits.test is not None else {})}
    versions = {"bushel": __version__, "numpy": np.__version__}
    packages = ("keras", "tensorflow", "tensorflow-cpu", "jax", "torch")
    for name in ("scikit-learn",) if setup.options.is_trees else packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return RunFile(
        data=_paths(splits.data),
        options=options_to_json(setup.options),
        task=setup.target,
        preparation=plain(msgspec.to_builtins(setup.problem.preparation)),
        compiled=msgspec.to_builtins(setup.learner.compiled),
        records={name: len(split) for name, split in named.items()},
        versions=versions,
    )


def _paths(data: Dataset) -> list[str]:
    """Where the data is: the folder of a dataset, or each file."""
    given = (
        [data.where] if data.manifest is not None else [path for split in data.splits.values() for path in split.paths]
    )
    return [str(as_path(path).absolute()) for path in given]


def _preflight(setup: Setup, listener: Listener) -> Preflight:
    found = look_before(setup)
    for note in found.notes:
        listener.note(note)
    for finding in found.findings:
        listener.finding(finding)
    return found


def _telling(training: Training, listener: Listener) -> Callable[[Progress], None]:
    """Report progress, and new findings after each epoch."""
    setup = training.setup
    known: set[str] = set()

    def tell(progress: Progress) -> None:
        listener.progress(progress)
        if not progress.is_end_of_epoch:
            return
        model = look_at_model(setup.learner.model, None)
        facts = facts_so_far(setup.problem, setup.options, model, training.watch)
        for finding in run_findings(facts, setup.options.ignore, when="during"):
            if finding.rule not in known:
                known.add(finding.rule)
                listener.finding(finding)

    return tell
