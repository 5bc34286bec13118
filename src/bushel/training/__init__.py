"""Training: a dataset to an evaluated model, and its predictions. It reaches nothing that writes records."""

from __future__ import annotations

from bushel.training.predicting import Prediction, predict

__all__ = ["Prediction", "predict"]
