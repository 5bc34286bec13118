"""From a dataset to an evaluated model, and whether it learned. Reads records, and writes none.

from bushel.training import Options, train

train("data", Options(epochs=5), out="runs/1").verdict
"""

from __future__ import annotations

from bushel.feeding.preparation import Problem
from bushel.training.loop.loop import Progress
from bushel.training.options import Options
from bushel.training.predicting import Evaluation, Prediction, evaluate, predict
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
