"""What a model has to beat: always the same answer, and a linear model."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.feeding.preparation import Input, Preparation, Target
from bushel.training.inputs.feeds import feature_rows
from bushel.training.setup import Setup

__all__ = ["Baselines", "baseline_words", "fit_baselines"]

Array = NDArray[Any]

ROWS = 4000  # of the train split that the linear model is fitted to
_HASHED = 1024
_WIDEST = 2048
_SIDE = 16
_STEPS = 16
_CATEGORIES = 50
_STRENGTHS = (1e-3, 1e-1, 1e1)  # of the ridge, for each record


@dataclass
class Baselines:
    """What is predicted without the model, for the records that judge it (or a part of them, by number)."""

    numbers: NDArray[np.int64]
    labels: Array
    outputs: dict[str, Array]  # constant, linear; and linear that learned from augmented inputs


def baseline_words(name: str, target: Target) -> str:
    """A baseline, to be read after "better than"."""
    if name == "linear":
        return "a linear model"
    answer = {"regression": "the median", "multi_label": "how common each label is"}
    return f"always predicting {answer.get(target.kind, 'the most common class')}"


def fit_baselines(setup: Setup) -> Baselines:
    """Fit what the model has to beat to the train split, and predict the records that judge it."""
    splits, problem, options, target = setup.splits, setup.problem, setup.options, setup.target

    def flat(arrays: dict[str, Array]) -> Array:
        return _linear_features(problem.preparation, arrays)

    features, labels = feature_rows(splits.train, problem, options, flat, most=ROWS)
    judged, truth = feature_rows(splits.judged, problem, options, flat, most=ROWS)
    outputs = {
        "constant": _constant_outputs(target, labels, len(truth)),
        "linear": _linear_outputs(target, _fit_linear(target, features, labels), judged),
    }
    if setup.augmentation:
        changed, labels = feature_rows(splits.train, problem, options, flat, most=ROWS, augmentation=setup.augmentation)
        outputs["augmented"] = _linear_outputs(target, _fit_linear(target, changed, labels), judged)
    count, is_stream = len(splits.judged), splits.judged.is_sequential
    numbers = np.arange(len(truth)) if is_stream else np.unique(np.linspace(0, count - 1, min(ROWS, count)).astype(int))
    return Baselines(numbers.astype(np.int64), truth, outputs)


def _constant_outputs(target: Target, train_labels: Array, rows: int) -> Array:
    """The most common class, the share of each label, or the median: the best answer without looking."""
    if target.kind == "regression":
        return np.repeat(np.median(train_labels, axis=0, keepdims=True), rows, axis=0)
    if target.kind == "multi_label":
        return np.repeat(train_labels.mean(axis=0, keepdims=True), rows, axis=0)
    shares = np.bincount(train_labels, minlength=len(target.classes)) / max(1, len(train_labels))
    return np.repeat(shares[None].astype(np.float32), rows, axis=0)


def _linear_features(preparation: Preparation, arrays: dict[str, Array]) -> Array:
    """One row of numbers per record, however it is fed: what a linear model can see."""
    parts = [_FLAT[given.kind or "number"](given, arrays[given.name]) for given in preparation.inputs]
    joined = np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1).astype(np.float64)
    joined = np.nan_to_num(joined, posinf=0.0, neginf=0.0)
    if joined.shape[1] <= _WIDEST:
        return joined
    kept = np.linspace(0, joined.shape[1] - 1, _WIDEST).astype(np.int64)
    return joined[:, kept]


def _fit_linear(target: Target, features: Array, labels: Array) -> tuple[Array, Array, Array]:
    """Weights of a ridge regression to classes or numbers, its strength chosen on a fifth of the rows."""
    mean, std = features.mean(axis=0), features.std(axis=0)
    std[std < 1e-12] = 1.0
    x = np.concatenate([(features - mean) / std, np.ones((len(features), 1))], axis=1)
    y = labels if not target.is_classes else np.eye(len(target.classes))[labels]
    y = y.astype(np.float64).reshape(len(x), -1)
    held = np.zeros(len(x), bool)
    held[:: 5 if len(x) >= 20 else len(x) + 1] = True
    best, chosen = np.inf, _STRENGTHS[1]
    for strength in _STRENGTHS if held.sum() > 1 else ():
        weights = _ridge(x[~held], y[~held], strength)
        error = float(((x[held] @ weights - y[held]) ** 2).mean())
        if error < best:
            best, chosen = error, strength
    return _ridge(x, y, chosen), mean, std


def _ridge(x: Array, y: Array, strength: float) -> Array:
    """Solved in the smaller of the two spaces: features, or rows."""
    rows, width = x.shape
    weight = strength * rows
    if width <= rows:
        found = np.linalg.solve(x.T @ x + weight * np.eye(width), x.T @ y)
    else:
        found = x.T @ np.linalg.solve(x @ x.T + weight * np.eye(rows), y)
    return np.asarray(found)


def _linear_outputs(target: Target, fitted: tuple[Array, Array, Array], features: Array) -> Array:
    """What the linear model predicts: numbers, or shares of classes."""
    weights, mean, std = fitted
    found = ((features - mean) / std) @ weights[:-1] + weights[-1]
    if target.kind == "regression":
        return np.asarray(found, np.float32)
    shares = np.clip(found, 1e-6, 1.0)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True) if target.is_classes else shares, np.float32)


def _image(_: Input, x: Array) -> Array:
    steps = [max(1, side // _SIDE) for side in x.shape[1:3]]
    return np.asarray(x[:, :: steps[0], :: steps[1]], np.float32)


def _clip(_: Input, x: Array) -> Array:
    steps = [max(1, side // _SIDE) for side in x.shape[2:4]]
    small = np.asarray(x[:, :, :: steps[0], :: steps[1]], np.float32)
    return np.concatenate([small.mean(axis=1), small.std(axis=1)], axis=-1)


def _series(_: Input, x: Array) -> Array:
    x = np.asarray(x, np.float32).reshape(len(x), x.shape[1], -1)
    moments = [x.mean(axis=1), x.std(axis=1), x.min(axis=1), x.max(axis=1), np.abs(np.diff(x, axis=1)).mean(axis=1)]
    thin = x[:, :: max(1, x.shape[1] // _STEPS)].reshape(len(x), -1)
    return np.concatenate([*moments, thin], axis=1)


def _tokens(given: Input, x: Array) -> Array:
    out = np.zeros((len(x), _HASHED), np.float32)
    rows, places = np.nonzero(x != given.pad)
    np.add.at(out, (rows, x[rows, places] % _HASHED), 1.0)
    return _by_length(out)


def _text(_: Input, x: Array) -> Array:
    out = np.zeros((len(x), _HASHED), np.float32)
    for row, text in enumerate(x):
        for word in bytes(text).lower().split():
            out[row, zlib.crc32(word) % _HASHED] += 1.0
    return _by_length(out)


def _by_length(counts: Array) -> Array:
    return np.asarray(counts / np.maximum(1.0, np.sqrt((counts**2).sum(axis=1, keepdims=True))))


def _sparse(_: Input, x: Array) -> Array:
    if x.shape[1] <= _HASHED:
        return x
    out = np.zeros((len(x), _HASHED), np.float32)
    for start in range(0, x.shape[1], _HASHED):
        piece = x[:, start : start + _HASHED]
        out[:, : piece.shape[1]] += piece
    return out


def _number(given: Input, x: Array) -> Array:
    values = np.asarray(x, np.float64).reshape(len(x), -1)
    return values if not given.has_missing else np.concatenate([values, np.isnan(values)], axis=1)


def _category(given: Input, x: Array) -> Array:
    known = given.values[:_CATEGORIES]
    values = [value.encode() for value in known] if given.dtype == "string" else known
    return np.stack([x == value for value in values], axis=1).astype(np.float32)


_FLAT = {
    "image": _image,
    "clip": _clip,
    "series": _series,
    "tokens": _tokens,
    "text": _text,
    "sparse": _sparse,
    "number": _number,
    "category": _category,
}
