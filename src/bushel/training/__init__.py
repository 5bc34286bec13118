"""From a dataset to an evaluated model, and an honest word on whether it learned. Reads records, and writes none.

from bushel.training import Options, train

train("data", Options(epochs=5), out="runs/1").verdict
"""

from __future__ import annotations

from bushel.training.evaluating import Evaluation, evaluate
from bushel.training.loop.loop import Progress
from bushel.training.models.ready_models import Problem
from bushel.training.options import Options
from bushel.training.predicting import Prediction, predict
from bushel.training.run import Listener, train
from bushel.training.run_folder import Trained
from bushel.training.verdict.verdict import Verdict

__all__ = [
    "Evaluation",
    "Listener",
    "Options",
    "Prediction",
    "Problem",
    "Progress",
    "Trained",
    "Verdict",
    "evaluate",
    "predict",
    "train",
]
