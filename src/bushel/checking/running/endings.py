"""What can only be said at the end of a run."""

from __future__ import annotations

import contextlib
from typing import Any

from bushel.checking.running import links
from bushel.checking.running.batches import Look, inputs_and_labels, look_at, overlap
from bushel.checking.running.models import model_facts, outputs_of
from bushel.checking.running.places import seen
from bushel.checking.running.training import loops

__all__ = ["tell_end"]

MANY_OPTIMIZERS = 4  # made by one line; loops over folds and epochs end after two rounds


def tell_end() -> None:
    """Write down what custom loops did."""
    seen.tell("metrics", metrics=loops.metrics)
    for (file, line), count in loops.made.items():
        if count > MANY_OPTIMIZERS and loops.applied:
            seen.tell("made_again", place=(file, line, ""), count=count)
    if not loops.models and not loops.gradients:
        return
    train = _looks(loops.trained_on)
    held_out = [look for look in _looks(loops.evaluated_on) if look.dataset not in loops.trained_on.values()]
    seen.tell(
        "loops",
        gradients=loops.gradients,
        applied=loops.applied,
        fits=loops.fits,
        train=[look.facts for look in train],
        val=[look.facts for look in held_out],
        overlaps=[overlap(a, b) for a in train[:1] for b in held_out[:2]],
        models=[_described(model, train) for model in list(loops.models.values())[:4]],
    )


def _looks(datasets: dict[int, Any]) -> list[Look]:
    found = []
    for dataset in datasets.values():
        with contextlib.suppress(Exception):
            found.append(look_at(dataset, "loop"))
    return found


def _described(model: Any, train: list[Look]) -> dict[str, Any]:
    facts = model_facts(model)
    with contextlib.suppress(Exception), links.quietly():
        x, _, _ = inputs_and_labels(train[0].batches[0])
        facts["outputs"] = outputs_of(model, x)
    return facts
