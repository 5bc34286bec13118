"""What was noted of a run, in the words that rules about runs take."""

from __future__ import annotations

import numpy as np

from bushel.checking.rules.model_rules import ModelFacts
from bushel.checking.rules.run_rules import RunFacts
from bushel.training.inputs.inputs import Preparation
from bushel.training.inputs.task import Task
from bushel.training.loop.watch import Watch
from bushel.training.options import Options

__all__ = ["first_facts"]

_NORMALISING = ("Rescaling", "Normalization", "BatchNormalization", "LayerNormalization", "GroupNormalization")


def first_facts(task: Task, preparation: Preparation, options: Options, model: ModelFacts, watch: Watch) -> RunFacts:
    """What is known without a verdict."""
    only = preparation.names[0] if len(preparation.names) == 1 else ""
    layers = [type(layer).__name__ for layer in model.layers[:6]]
    spans = {name or only: (watch.low[name], watch.high[name]) for name in watch.low}
    return RunFacts(
        task=task.kind,
        label=task.label,
        classes=task.classes if task.is_classes else [],
        counts=task.counts if task.is_classes else [],
        batch_size=options.batch_size,
        batches=watch.batches,
        classes_per_batch=watch.distinct / watch.batches if watch.is_classes and watch.batches else None,
        losses=watch.losses,
        guess_loss=guess_loss(task),
        looked_at=watch.looked_at,
        constant={name or only: count for name, count in watch.constant.items()},
        spans=spans if all(given.kind != "tokens" for given in preparation.inputs) else {},
        normalises=any(name in _NORMALISING for name in layers),
        predicted=watch.predicted[-1] if watch.predicted else None,
        share=watch.shares[-1] if watch.shares else 0.0,
        waiting=watch.waited / watch.seconds if watch.seconds else 0.0,
        seconds=watch.seconds,
        slowest=watch.slowest,
        advice=watch.advice,
        augmentation=options.augment,
    )


def guess_loss(task: Task) -> float | None:
    """The loss of always saying the shares of the classes."""
    total = sum(task.counts)
    if not task.is_classes or not total:
        return None
    shares = np.array([count / total for count in task.counts if count])
    return float(-(shares * np.log(shares)).sum())
