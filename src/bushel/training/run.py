"""`train`: a dataset to an evaluated model in a folder, with a verdict."""

from __future__ import annotations

import contextlib
import importlib.metadata
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from bushel import __version__
from bushel.checking import Finding
from bushel.checking.rules.model_rules import look_at_model
from bushel.reading import Dataset
from bushel.storage import AnyPath, as_path
from bushel.training.ending import end_run, stop_before
from bushel.training.loop.boosting import Boosting
from bushel.training.loop.framework import Logs, settings_for
from bushel.training.loop.loop import Progress, Training
from bushel.training.options import Options
from bushel.training.preflight import Preflight, look_before
from bushel.training.run_folder import (
    RUN,
    RunFile,
    State,
    Trained,
    begin_folder,
    load_checkpoint,
    make_folder,
    options_of,
    options_to_json,
    plain,
    read_run,
    same_run,
    write_json,
)
from bushel.training.setup import Setup, set_up, unfreeze
from bushel.training.verdict.baselines import fit_baselines
from bushel.training.verdict.verdict import run_findings
from bushel.training.verdict.watch import Watch, facts_so_far

__all__ = ["Listener", "train"]


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
    listener, folder = listener or Listener(), Path(out)
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
        training = _training(setup, folder, resume=resume)
        training.state.seconds.setdefault("setting up", time.perf_counter() - begun)
        preflight = None if resume or not options.preflight else _preflight(setup, listener)
        if preflight is not None:
            training.state.seconds["preflight"] = preflight.seconds
            if preflight.blocking:
                return stop_before(setup, folder, run, preflight)
        baselines = fit_baselines(setup)
        with contextlib.closing(training.logs):
            training.tell = _telling(training, listener)
            training.run()
        if training.state.lowest_epoch == training.state.epoch == setup.epochs:
            listener.note("the validation loss was still falling in the last epoch: more --epochs may help (--resume)")
        return end_run(training, run, preflight, baselines)


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


def _training(setup: Setup, folder: Path, *, resume: bool) -> Training:
    if setup.options.is_trees:
        return Boosting(setup, folder, Watch.of(setup.target), Logs(None))
    logs = Logs(folder / "logs" if setup.options.tensorboard else None)
    training = Training(setup, folder, Watch.of(setup.target), logs)
    training.initial = {
        variable.path: np.asarray(variable).copy() for variable in setup.learner.model.trainable_variables
    }
    training.state.frozen_epochs = setup.frozen_epochs
    if resume:
        training.state, training.best = load_checkpoint(folder, setup.learner.model, partial(_as_far, setup))
        training.watch = Watch.from_json(training.state.watched)
        # A finished run continues if it is given more epochs; one that was stopped early does not.
        training.state.is_over = training.state.stopped is not None or training.state.epoch >= setup.epochs
    return training


def _as_far(setup: Setup, state: State) -> None:
    """Train the layers that a run trained when its checkpoint was taken."""
    if state.is_unfrozen:
        unfreeze(setup)


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
