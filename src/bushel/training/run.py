"""`train`: a dataset to an evaluated model in a folder, with a verdict."""

from __future__ import annotations

import contextlib
import importlib.metadata
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import __version__
from bushel.checking import Finding
from bushel.checking.rules.model_rules import look_at_model
from bushel.errors import SchemaMismatch
from bushel.reading import Dataset
from bushel.storage import AnyPath, as_path
from bushel.training.ending import end_run, stop_before
from bushel.training.inputs.augmentation import augmentation_of
from bushel.training.inputs.inputs import Input, Preparation, prepare_inputs
from bushel.training.inputs.split_roles import Parts, open_parts
from bushel.training.inputs.task import Task, task_of
from bushel.training.loop.checkpoints import load_checkpoint
from bushel.training.loop.framework import load_keras, settings_for, strategy_of
from bushel.training.loop.logs import Logs
from bushel.training.loop.loop import Progress, Training
from bushel.training.loop.model_steps import Steps, label_form, rows_of
from bushel.training.loop.watch import Watch
from bushel.training.models.compiling import Compiled, compile_model
from bushel.training.models.custom_models import own_model
from bushel.training.models.ready_models import Problem, ready_model
from bushel.training.options import Options
from bushel.training.preflight import Preflight, fit_baselines, look_before
from bushel.training.run_folder import (
    RUN,
    Run,
    Trained,
    begin_folder,
    make_folder,
    options_to_json,
    plain,
    same_run,
    write_json,
)
from bushel.training.verdict.verdict import run_facts, run_findings
from bushel.transforms import cast, normalise

__all__ = ["Listener", "train"]

_RANGES = {"0..1": (0.0, 255.0), "-1..1": (127.5, 127.5)}


@dataclass
class Listener:
    """Who is told how a run goes: its progress, findings as they come, and what was chosen."""

    progress: Callable[[Progress], None] = lambda _: None
    finding: Callable[[Finding], None] = lambda _: None
    note: Callable[[str], None] = lambda _: None


@dataclass
class _Made:
    """All that is there before the first step."""

    parts: Parts
    task: Task
    preparation: Preparation
    compiled: Compiled
    steps: Steps
    augmentation: tuple[Any, ...]
    class_weights: NDArray[np.float32] | None
    notes: list[str] = field(default_factory=list)


def train(
    data: AnyPath | Iterable[AnyPath] | Dataset,
    options: Options | None = None,
    *,
    out: AnyPath,
    resume: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
) -> Trained:
    """Train a model on a dataset, and say whether it learned.

    Nothing is written but the folder `out`: the model, metrics, history, logs, a report and a contract. A run that was
    stopped goes on from its last checkpoint with `resume=True`, and ends with the weights that it would have had.

    >>> trained = bushel.train("data", Options(epochs=5), out="runs/1")
    >>> print(trained.verdict.summary)
    """
    options, listener, folder = options or Options(), listener or Listener(), Path(out)
    begin_folder(folder, resume=resume, overwrite=overwrite)
    with settings_for(options):
        begun = time.perf_counter()
        made = _make(data, options)
        run = _describe(made, options)
        for note in made.notes:
            listener.note(note)
        if resume:
            same_run(folder, run)
        else:
            make_folder(folder)
            write_json(folder / RUN, msgspec.to_builtins(run))
        training = _training(made, options, folder, resume=resume)
        training.state.seconds.setdefault("setting up", time.perf_counter() - begun)
        preflight = None if resume or not options.preflight else _preflight(made, options, listener)
        if preflight is not None:
            training.state.seconds["preflight"] = preflight.seconds
            if preflight.blocking:
                return stop_before(folder, run, preflight)
        baselines = fit_baselines(made.parts, made.task, made.preparation, options, made.augmentation)
        with contextlib.closing(training.logs):
            training.tell = _telling(made, training, options, preflight, listener)
            training.run()
        return end_run(training, run, preflight, baselines, notes=made.notes)


def _make(data: Any, options: Options) -> _Made:
    parts = open_parts(data, seed=options.seed)
    task = task_of(parts, label=options.label, task=options.task)
    preparation = prepare_inputs(parts.train, task.label, columns=options.columns, image_size=options.image_size)
    augmentation = augmentation_of(options.augment, preparation)
    strategy = strategy_of(options)
    problem = Problem(inputs=preparation.inputs, task=task)
    with strategy.scope() if strategy is not None else contextlib.nullcontext():
        model = ready_model(problem, parts.train) if options.model is None else own_model(options.model, problem)
        if options.model is not None or options.range is not None:
            preparation = _scaled(preparation, model, options)
        arrays, labels = _build(model, parts, task, preparation, options)
        epoch = -(-len(parts.train) // options.batch_size)
        compiled = compile_model(model, task, options, steps=epoch * options.epochs)
        model.optimizer.build(model.trainable_variables)
        _build_metrics(model, arrays, label_form(compiled.form, task, labels))
    steps = Steps(model, task, preparation, compiled, strategy)
    weights = _class_weights(task, options)
    notes = [*parts.notes, *preparation.notes]
    return _Made(parts, task, preparation, compiled, steps, augmentation, weights, notes)


def _scaled(preparation: Preparation, model: Any, options: Options) -> Preparation:
    """Pixels in the range that the model's first layers are made for: 0..1 where they do not say."""
    wanted = options.range or look_at_model(model, None).expects or "0..1"
    steps: list[Any] = []
    inputs: list[Input] = []
    notes = list(preparation.notes)
    for given in preparation.inputs:
        if given.kind not in ("image", "clip") or given.dtype != "uint8":
            inputs.append(given)
            continue
        if wanted in _RANGES:
            mean, std = _RANGES[wanted]
            steps.append(normalise(given.name, mean, std))
        else:
            steps.append(cast(given.name, "float32"))
        low, high = (float(end) for end in wanted.split(".."))
        inputs.append(msgspec.structs.replace(given, dtype="float32", range=(low, high)))
        notes.append(f"{given.name!r} is fed as {wanted}")
    return msgspec.structs.replace(preparation, inputs=tuple(inputs), scaling=tuple(steps), notes=tuple(notes))


def _build(model: Any, parts: Parts, task: Task, preparation: Preparation, options: Options) -> tuple[Any, Any]:
    """Call the model once, so that it has weights, and a shape that does not fit is said before anything is begun."""
    small = msgspec.structs.replace(options, batch_size=2)
    arrays, labels = rows_of(parts.train, preparation, task, small, most=2)
    x = next(iter(arrays.values())) if len(arrays) == 1 else arrays
    try:
        model(x, training=False)
    except Exception as error:
        shapes = ", ".join(f"{name} {array.dtype}{list(array.shape[1:])}" for name, array in arrays.items())
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise SchemaMismatch(f"the model does not take {shapes}: {said}", at=str(options.model or "model")) from None
    return x, labels


def _build_metrics(model: Any, x: Any, y: Any) -> None:
    """Metrics get their variables with the first batch; a step that is compiled before could not reset them."""
    try:
        model.test_on_batch(x, y)
    except (ValueError, TypeError) as error:
        raise SchemaMismatch(
            f"the loss does not take the labels: {str(error).strip().splitlines()[0]}", at="loss"
        ) from None


def _class_weights(task: Task, options: Options) -> NDArray[np.float32] | None:
    given = options.class_weights
    if given is None:
        return None
    if not task.is_classes:
        raise ValueError(f"class_weights must be left out for {task.kind.replace('_', ' ')}, got {given!r}")
    counts = np.array(task.counts, np.float32)
    if given == "balanced":
        weights = counts.sum() / (np.maximum(counts, 1) * max(1, int((counts > 0).sum())))
        return np.where(counts > 0, weights, 0.0).astype(np.float32)
    unknown = [name for name in given if name not in task.classes]
    if unknown:
        raise ValueError(f"class_weights must name classes ({', '.join(task.classes[:8])}), got {unknown[0]!r}")
    return np.array([given.get(name, 1.0) for name in task.classes], np.float32)


def _describe(made: _Made, options: Options) -> Run:
    parts = made.parts
    splits = {"train": parts.train, "val": parts.val, **({"test": parts.test} if parts.test is not None else {})}
    versions = {"bushel": __version__, "keras": load_keras().__version__, "numpy": np.__version__}
    for name in ("tensorflow", "tensorflow-cpu", "jax", "torch"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return Run(
        data=[str(as_path(parts.data.where).absolute())],
        options=options_to_json(options),
        task=made.task,
        preparation=plain(msgspec.to_builtins(made.preparation)),
        compiled=msgspec.to_builtins(made.compiled),
        records={name: len(split) for name, split in splits.items()},
        versions=versions,
    )


def _training(made: _Made, options: Options, folder: Path, *, resume: bool) -> Training:
    training = Training(
        steps=made.steps,
        parts=made.parts,
        options=options,
        augmentation=made.augmentation,
        class_weights=made.class_weights,
        folder=folder,
        watch=Watch.of(made.task),
        logs=Logs(folder / "logs" if options.tensorboard else None),
    )
    if resume:
        training.state, training.best = load_checkpoint(folder, made.steps.model)
        training.watch = Watch.from_json(training.state.watched)
    return training


def _preflight(made: _Made, options: Options, listener: Listener) -> Preflight:
    found = look_before(made.parts, made.task, made.preparation, made.steps.model, made.compiled, options)
    for note in found.notes:
        listener.note(note)
    for finding in found.findings:
        listener.finding(finding)
    return found


def _telling(
    made: _Made, training: Training, options: Options, preflight: Preflight | None, listener: Listener
) -> Callable[[Progress], None]:
    """Progress, and behind each epoch what is found for the first time."""
    told: set[str] = set()

    def tell(progress: Progress) -> None:
        listener.progress(progress)
        if not progress.is_end_of_epoch:
            return
        model = made.steps.model
        facts = run_facts(made.task, made.preparation, options, model, training.watch, preflight)
        for finding in run_findings(facts, options.ignore, when="during"):
            if finding.rule not in told:
                told.add(finding.rule)
                listener.finding(finding)

    return tell
