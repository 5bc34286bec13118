"""What a model has to beat: a constant prediction, and a linear model."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.feeding.preparation import Input, Preparation, Target, probabilities
from bushel.training.inputs.splits import feature_rows, spread
from bushel.training.linear_models import one_thread, solve
from bushel.training.predictions import Predictions
from bushel.training.setup import Setup
from bushel.training.verdict.metrics import auc, primary

__all__ = ["Baselines", "baseline_words", "constant_outputs", "fit_baselines"]

Array = NDArray[Any]

ROWS = 4000  # records of the train split to fit the linear model to
_HASHED = 1024
_WIDEST = 2048
_SIDE = 16
_STEPS = 16
_CATEGORIES = 50
_STRENGTHS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)  # penalties to try, from strong to weak
_LARGE = 10_000_000  # multiplications per step beyond which fewer penalties are tried
_FEW_ROWS = 1000  # rows up to which the penalty is chosen on all fifths
_NEAR_ROWS = 1500  # records of train, and of those that judge, that are compared with each other
_NEIGHBOURS = 9
_LEAST_JUDGED = 30  # records that each split needs for a comparison


@dataclass
class Baselines:
    """Predictions of the baselines, for the records that judge the model (or some of them, by number).

    `held` are labels of held-out train records, and the predictions of a linear model for them. `drift`
    is how well a linear model tells the train split from the records that judge, 0.5 to 1.
    """

    numbers: NDArray[np.int64]
    labels: Array
    outputs: dict[str, Array]  # constant, linear; and linear that learned from augmented inputs
    held: tuple[Array, Array] | None = None
    drift: float | None = None
    contradicting: float = 0.0  # share of records of train whose inputs another has with another label
    rows: tuple[Array, Array] | None = None  # numbers of each record of train, and of those that judge
    train_labels: Array | None = None

    def ask_neighbours(self, target: Target) -> tuple[NDArray[np.int64], Array]:
        """What the nearest records of train say of some that judge: their numbers, and the answers."""
        assert self.rows is not None
        assert self.train_labels is not None
        learned, asked = (spread(len(part), _NEAR_ROWS) for part in self.rows)
        mean, std = _moments(self.rows[0])
        train, judged = ((part[some] - mean) / std for part, some in zip(self.rows, (learned, asked), strict=True))
        apart = (judged**2).sum(axis=1)[:, None] + (train**2).sum(axis=1) - 2 * judged @ train.T
        nearest = np.argsort(apart, axis=1, kind="stable")[:, :_NEIGHBOURS]
        labels = self.train_labels[learned][nearest]
        hot = np.eye(len(target.classes))[labels] if target.is_classes else labels
        return asked, hot.mean(axis=1)


def baseline_words(name: str, target: Target) -> str:
    """A baseline in words that follow "better than"."""
    if name == "linear":
        return "a linear model"
    answer = {"regression": "the median", "multi_label": "how common each label is"}
    return f"always predicting {answer.get(target.kind, 'the most common class')}"


def fit_baselines(setup: Setup, linear: Predictions | None = None) -> Baselines:
    """Fit the baselines to the train split, and predict the records that judge the model.

    `linear` is what the linear model predicts for these; without it, as with trees that need no framework, one is
    fitted to a few numbers of each record. Such models are fitted in one thread: threads that share small products
    wait for each other, which took twenty times the processor time on busy cores.
    """
    with one_thread():
        found = _fit_baselines(setup)
    if linear is not None:
        found.outputs["linear"] = linear.outputs[found.numbers]
    return found


def _fit_baselines(setup: Setup) -> Baselines:
    splits, problem, options, target = setup.splits, setup.problem, setup.options, setup.target

    def flat(arrays: dict[str, Array]) -> Array:
        return _linear_features(problem.preparation, arrays)

    features, labels = feature_rows(splits.train, problem, options, flat, most=ROWS)
    judged, truth = feature_rows(splits.judged, problem, options, flat, most=ROWS)
    linear = _fit_linear(target, features, labels)
    outputs = {"constant": constant_outputs(target, labels, len(truth)), "linear": linear.outputs(target, judged)}
    if setup.augmentation:
        changed, same = feature_rows(splits.train, problem, options, flat, most=ROWS, augmentation=setup.augmentation)
        outputs["augmented"] = _fit_linear(target, changed, same).outputs(target, judged)
    count, is_stream = len(splits.judged), splits.judged.is_sequential
    numbers = np.arange(len(truth)) if is_stream else spread(count, ROWS)
    return Baselines(
        numbers,
        truth,
        outputs,
        held=linear.held,
        drift=_drift(*_of_equal_shares(target, (features, labels), (judged, truth))),
        contradicting=_contradicting(features, labels) if target.is_classes else 0.0,
        rows=(features, judged),
        train_labels=labels,
    )


def _of_equal_shares(target: Target, train: tuple[Array, Array], judged: tuple[Array, Array]) -> tuple[Array, Array]:
    """As many rows of each class from both: where classes are rarer in one, that alone would tell the two apart."""
    if not target.is_classes:
        return train[0], judged[0]
    places: tuple[list[Array], list[Array]] = ([], [])
    for code in range(len(target.classes)):
        found = [np.flatnonzero(labels == code) for _, labels in (train, judged)]
        least = min(map(len, found))
        for kept, rows in zip(places, found, strict=True):
            kept.append(rows[spread(len(rows), least)])
    return tuple(rows[np.sort(np.concatenate(kept))] for (rows, _), kept in zip((train, judged), places, strict=True))


def _drift(train: Array, judged: Array) -> float | None:
    """How well a linear model tells two sets of rows apart: its AUC on rows that it did not see.

    It also sees the distance of values from the mean of train, and so a change of scale.
    """
    if min(len(train), len(judged)) < _LEAST_JUDGED:
        return None
    mean, std = _moments(train)
    scaled = np.clip((np.concatenate([train, judged]) - mean) / std, -1e3, 1e3)
    rows = np.concatenate([scaled, np.abs(scaled)], axis=1)
    is_judged = np.repeat([0, 1], [len(train), len(judged)])
    order = np.random.default_rng(0).permutation(len(rows))
    learned, asked = order[::2], order[1::2]
    target = Target(kind="binary", label="", classes=["train", "judged"], counts=[len(train), len(judged)])
    fitted = _fit_linear(target, rows[learned], is_judged[learned], strengths=(1e-1,))
    found = auc(is_judged[asked], fitted.outputs(target, rows[asked])[:, 1])
    return max(found, 1 - found)


def _contradicting(features: Array, labels: Array) -> float:
    _, same = np.unique(features, axis=0, return_inverse=True)
    groups = same.reshape(-1)
    pairs = np.unique(np.stack([groups, labels], axis=1), axis=0)
    kinds = np.bincount(pairs[:, 0].astype(np.int64), minlength=int(groups.max(initial=0)) + 1)
    return float((kinds[groups] > 1).mean())


def constant_outputs(target: Target, train_labels: Array, rows: int) -> Array:
    """The most common class, the share of each label, or the median: the best guess without inputs."""
    if target.kind == "regression":
        return np.repeat(np.median(train_labels, axis=0, keepdims=True), rows, axis=0)
    if target.kind == "multi_label":
        return np.repeat(train_labels.mean(axis=0, keepdims=True), rows, axis=0)
    shares = np.bincount(train_labels, minlength=len(target.classes)) / max(1, len(train_labels))
    return np.repeat(shares[None].astype(np.float32), rows, axis=0)


def _linear_features(preparation: Preparation, arrays: dict[str, Array]) -> Array:
    """One row of numbers per record, for a linear model."""
    parts = [_FLAT[given.kind or "number"](given, arrays[given.name]) for given in preparation.inputs]
    joined = np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1).astype(np.float64)
    joined = np.nan_to_num(joined, posinf=0.0, neginf=0.0)
    if joined.shape[1] <= _WIDEST:
        return joined
    return joined[:, spread(joined.shape[1], _WIDEST)]


@dataclass(frozen=True)
class _Linear:
    """A fitted linear model, and its predictions for the rows held out to choose its penalty."""

    weights: Array
    mean: Array
    std: Array
    held: tuple[Array, Array] | None = None

    def outputs(self, target: Target, features: Array) -> Array:
        """Probabilities of classes, or numbers."""
        return _answers(target, _with_ones((features - self.mean) / self.std) @ self.weights)


def _fit_linear(target: Target, features: Array, labels: Array, strengths: Sequence[float] = _STRENGTHS) -> _Linear:
    """Logistic regression, or ridge regression to numbers; the penalty is chosen on held-out rows.

    If the metric weights classes equally, so does the fit.
    """
    if features.size * max(1, target.outputs) > _LARGE:
        strengths = strengths[1:4] or strengths
    mean, std = _moments(features)
    x = (features - mean) / std
    y = labels if not target.is_classes else np.eye(len(target.classes))[labels]
    y = y.astype(np.float64).reshape(len(x), -1)
    weights = _row_weights(target, labels)
    folds = _folds(len(x))
    best, chosen, held = np.inf, strengths[0], None
    starts = [np.zeros((x.shape[1] + 1, y.shape[1]))] * max(1, len(folds))
    for strength in strengths if folds else ():
        answers = []
        for number, out in enumerate(folds):
            starts[number] = solve(target, x[~out], y[~out], weights[~out], penalty=strength, start=starts[number])
            answers.append((labels[out], _answers(target, _with_ones(x[out]) @ starts[number]), weights[out]))
        truth, answer, weight = (np.concatenate(parts) for parts in zip(*answers, strict=True))
        loss = float(np.average(_losses(target, truth, answer), weights=weight))
        if loss < best:
            best, chosen, held = loss, strength, (truth, answer)
    return _Linear(solve(target, x, y, weights, penalty=chosen, start=starts[0]), mean, std, held)


def _folds(rows: int) -> list[NDArray[np.bool_]]:
    """Which rows to hold out, in turn: one fifth if there are many, each fifth if there are few."""
    if rows < 20:
        return []
    fifth = np.random.default_rng(0).permutation(rows) % 5
    return [fifth == number for number in range(5 if rows <= _FEW_ROWS else 1)]


def _losses(target: Target, labels: Array, outputs: Array) -> Array:
    return Predictions.of(target, labels, outputs.astype(np.float64)).losses


def _moments(features: Array) -> tuple[Array, Array]:
    mean, std = features.mean(axis=0), features.std(axis=0)
    return mean, np.where(std < 1e-12, 1.0, std)


def _with_ones(x: Array) -> Array:
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)


def _row_weights(target: Target, labels: Array) -> Array:
    if not target.is_classes or primary(target).name != "balanced_accuracy":
        return np.ones(len(labels))
    counts = np.bincount(labels, minlength=len(target.classes))
    return np.asarray((len(labels) / np.maximum(counts, 1) / max(1, (counts > 0).sum()))[labels])


def _answers(target: Target, scores: Array) -> Array:
    if target.kind == "regression":
        return np.asarray(scores, np.float32)
    return probabilities("multi_label" if target.kind == "multi_label" else "multi_class", scores, "logits")


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
