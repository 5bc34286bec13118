"""Which loop a model has, and where it begins."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from bushel.training.loop.boosting import Boosting
from bushel.training.loop.framework import Logs
from bushel.training.loop.loop import Training
from bushel.training.loop.solving import Solving
from bushel.training.run_folder import State, load_checkpoint, load_state
from bushel.training.setup import Setup, unfreeze
from bushel.training.verdict.verdict import Watch

__all__ = ["start_training"]


def start_training(setup: Setup, folder: Path | None, *, resume: bool = False) -> Training:
    """A run that is about to begin, or stands where its checkpoint was taken. Without a folder it keeps nothing."""
    options = setup.options
    has_logs = folder is not None and options.tensorboard and not options.is_trees
    logs = Logs(folder / "logs" if folder is not None and has_logs else None)
    kind = Boosting if options.is_trees else Solving if options.is_linear else Training
    training = kind(setup, folder, Watch.of(setup.target), logs)
    if not options.is_trees:
        model = setup.learner.model
        training.initial = {variable.path: np.asarray(variable).copy() for variable in model.trainable_variables}
        if options.is_ready:
            training.begun = [
                np.asarray(variable).copy() for variable in (*model.variables, *model.optimizer.variables)
            ]
    training.state.frozen_epochs = setup.frozen_epochs
    if resume and folder is not None:
        if options.is_trees:
            training.state = load_state(folder)
        else:
            training.state, training.best = load_checkpoint(folder, setup.learner.model, partial(_as_far, setup))
        training.watch = Watch.from_json(training.state.watched)
        # A finished run continues if it is given more epochs; one that was stopped early does not.
        training.state.is_over = training.state.stopped is not None or training.state.epoch >= setup.epochs
    return training


def _as_far(setup: Setup, state: State) -> None:
    """Train the layers that a run trained when its checkpoint was taken."""
    if state.is_unfrozen:
        unfreeze(setup)
