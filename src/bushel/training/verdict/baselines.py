"""What a model has to beat: a constant prediction, and a linear model."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.feeding.preparation import Input, Preparation, Target, probabilities
from bushel.training.inputs.splits import feature_rows, spread
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
_ITERATIONS = 80
_FEW_ROWS = 1000  # rows up to which the penalty is chosen on all fifths
_KEPT = 10  # moves that the minimiser remembers
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


def baseline_words(name: str, target: Target) -> str:
    """A baseline in words that follow "better than"."""
    if name == "linear":
        return "a linear model"
    answer = {"regression": "the median", "multi_label": "how common each label is"}
    return f"always predicting {answer.get(target.kind, 'the most common class')}"


def fit_baselines(setup: Setup) -> Baselines:
    """Fit the baselines to the train split, and predict the records that judge the model.

    The linear models are fitted in one thread: threads that share small products wait for each other, which took twenty
    times the processor time on busy cores.
    """
    with _one_thread():
        return _fit_baselines(setup)


def _one_thread() -> contextlib.AbstractContextManager[Any]:
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return contextlib.nullcontext()
    limits: contextlib.AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    return limits


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
    x = _with_ones((features - mean) / std)
    y = labels if not target.is_classes else np.eye(len(target.classes))[labels]
    y = y.astype(np.float64).reshape(len(x), -1)
    weights = _row_weights(target, labels)
    folds = _folds(len(x))
    best, chosen, held = np.inf, strengths[0], None
    starts = [np.zeros((x.shape[1], y.shape[1]))] * max(1, len(folds))
    for strength in strengths if folds else ():
        answers = []
        for number, out in enumerate(folds):
            starts[number] = _fit(target, x[~out], y[~out], weights[~out], strength, starts[number])
            answers.append((labels[out], _answers(target, x[out] @ starts[number]), weights[out]))
        truth, answer, weight = (np.concatenate(parts) for parts in zip(*answers, strict=True))
        loss = float(np.average(_losses(target, truth, answer), weights=weight))
        if loss < best:
            best, chosen, held = loss, strength, (truth, answer)
    return _Linear(_fit(target, x, y, weights, chosen, starts[0]), mean, std, held)


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


def _fit(target: Target, x: Array, y: Array, weights: Array, strength: float, start: Array) -> Array:
    """The weights with the least loss, with a penalty on all but the constant."""
    if target.kind == "regression":
        return _ridge(x, y, strength)
    total = weights.sum()
    is_penalised = np.ones((x.shape[1], 1))
    is_penalised[-1] = 0.0

    def loss(flat: Array) -> tuple[float, Array]:
        found = flat.reshape(start.shape)
        scores = np.clip(x @ found, -500, 500)
        if target.kind == "multi_label":
            shares = 1 / (1 + np.exp(-scores))
            each = np.logaddexp(0, scores) - y * scores
        else:
            log_shares = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
            shares, each = np.exp(log_shares), -y * log_shares
        value = float((weights * each.sum(axis=1)).sum() / total + strength / 2 * (is_penalised * found**2).sum())
        slope = x.T @ (weights[:, None] * (shares - y)) / total + strength * is_penalised * found
        return value, slope.reshape(-1)

    return _minimise(loss, start.reshape(-1)).reshape(start.shape)


def _minimise(loss: Callable[[Array], tuple[float, Array]], point: Array) -> Array:
    """The minimum of a smooth convex function, by L-BFGS."""
    value, slope = loss(point)
    moves: list[tuple[Array, Array]] = []
    for _ in range(_ITERATIONS):
        direction = -_by_curvature(slope, moves)
        down = float(slope @ direction)
        size = 1.0 if moves else 1.0 / max(1.0, float(np.linalg.norm(slope)))
        for _ in range(20):
            new_value, new_slope = loss(point + size * direction)
            if new_value <= value + 1e-4 * size * down:
                break
            size /= 2
        else:
            return point
        step, change = size * direction, new_slope - slope
        if step @ change > 1e-12:
            moves = [*moves[1 - _KEPT :], (step, change)]
        gained, point, value, slope = value - new_value, point + step, new_value, new_slope
        if gained <= 1e-7 * max(1.0, abs(value)):
            break
    return point


def _by_curvature(slope: Array, moves: list[tuple[Array, Array]]) -> Array:
    """The slope divided by the curvature seen in the last moves."""
    out, shares = slope.copy(), []
    for step, change in reversed(moves):
        shares.append(float(step @ out) / float(step @ change))
        out -= shares[-1] * change
    if moves:
        step, change = moves[-1]
        out *= float(step @ change) / float(change @ change)
    for (step, change), share in zip(moves, reversed(shares), strict=True):
        out += (share - float(change @ out) / float(step @ change)) * step
    return out


def _ridge(x: Array, y: Array, strength: float) -> Array:
    """Solved in the smaller of the two spaces: features, or rows."""
    middle, centre = x[:, :-1].mean(axis=0), y.mean(axis=0)  # centred, so that the constant needs no penalty
    inner, rest = x[:, :-1] - middle, y - centre
    rows, width = inner.shape
    if width <= rows:
        found = np.linalg.solve(inner.T @ inner + strength * rows * np.eye(width), inner.T @ rest)
    else:
        found = inner.T @ np.linalg.solve(inner @ inner.T + strength * rows * np.eye(rows), rest)
    return np.concatenate([found, (centre - middle @ found)[None]])


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
