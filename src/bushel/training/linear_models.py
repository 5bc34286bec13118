"""Linear models, solved: logistic regression by L-BFGS, ridge regression in closed form where rows are dense."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.feeding.preparation import Target
from bushel.tensorflow.tensors import load_tensorflow
from bushel.training.loop.framework import is_tensorflow
from bushel.training.options import Options

__all__ = ["Rows", "SparseRows", "join_rows", "linear_options", "one_thread", "penalty_of", "solve"]

Array = NDArray[Any]
_ITERATIONS = 80
_KEPT = 10  # moves that the minimiser remembers
_PENALTIES = 8  # to try, unless it is said how many
_PATIENCE = 2  # penalties in a row that bring no better loss
_WIDE = 4096  # columns beyond which rows that are mostly 0 are kept as what is not 0
_OF_NETWORKS = (
    *("weights", "loss", "learning_rate", "schedule", "warmup", "optimiser", "precision", "augment"),
    *("strategy", "checkpoint_every"),
)


def linear_options(options: Options) -> Options:
    """The options with a length; those that only networks have are refused."""
    default = Options()
    for name in _OF_NETWORKS:
        if getattr(options, name) != getattr(default, name):
            raise ValueError(
                f"{name} must be left out for a linear model, which is solved; got {getattr(options, name)!r}"
            )
    if options.epochs is not None:
        return options
    return msgspec.structs.replace(options, epochs=_PENALTIES, early_stopping=options.early_stopping or _PATIENCE)


def penalty_of(epoch: int) -> float:
    """The penalty on squared weights in an epoch, beside a mean loss: the first is strong, each next a tenth of it."""
    return 10.0**-epoch


class SparseRows:
    """Rows of which only what is not 0 is kept. Products are TensorFlow's."""

    def __init__(self, rows: NDArray[np.int64], columns: NDArray[np.int64], values: Array, shape: tuple[int, int]):
        self.rows, self.columns, self.values, self.shape = rows, columns, values.astype(np.float32), shape
        tf = load_tensorflow()
        self._tensor = tf.SparseTensor(np.stack([rows, columns], axis=1), self.values, shape)

    @classmethod
    def of(cls, dense: Array) -> SparseRows:
        """What is not 0 of dense rows."""
        rows, columns = np.nonzero(dense)
        return cls(rows, columns, dense[rows, columns], (len(dense), dense.shape[1]))

    def __len__(self) -> int:
        return self.shape[0]

    def __matmul__(self, weights: Array) -> Array:
        product = load_tensorflow().sparse.sparse_dense_matmul(self._tensor, weights.astype(np.float32))
        return np.asarray(product, np.float64)

    def pull(self, each: Array) -> Array:
        """The transposed rows times a column for each output."""
        matmul = load_tensorflow().sparse.sparse_dense_matmul
        return np.asarray(matmul(self._tensor, each.astype(np.float32), adjoint_a=True), np.float64)


Rows: TypeAlias = Array | SparseRows


def join_rows(pieces: Iterable[Array]) -> Rows:
    """Pieces of dense rows, one below the other; wide ones are kept as what is not 0, where TensorFlow multiplies."""
    kept: list[Any] = []
    for piece in pieces:
        is_wide = piece.shape[1] > _WIDE and is_tensorflow()
        kept.append(SparseRows.of(piece) if is_wide else np.asarray(piece, np.float32))
    if not isinstance(kept[0], SparseRows):
        return np.concatenate(kept)
    firsts = np.cumsum([0, *map(len, kept)])
    rows = np.concatenate([piece.rows + first for piece, first in zip(kept, firsts[:-1], strict=True)])
    columns, values = (np.concatenate([getattr(piece, name) for piece in kept]) for name in ("columns", "values"))
    return SparseRows(rows, columns, values, (int(firsts[-1]), kept[0].shape[1]))


def one_thread() -> contextlib.AbstractContextManager[Any]:
    """Products in one thread: threads that share small ones wait for each other, far more so on busy cores."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return contextlib.nullcontext()
    limits: contextlib.AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    return limits


def solve(target: Target, x: Rows, y: Array, weights: Array, *, penalty: float, start: Array) -> Array:
    """The weights with the least mean loss, with a penalty on all but those of the last row, the constant's.

    `y` has a column for each output: 0 and 1 for classes and labels, else numbers.
    """
    if target.kind == "regression" and not isinstance(x, SparseRows):
        return _ridge(np.asarray(x, np.float64), y, weights, penalty)
    total = float(weights.sum())

    def loss(flat: Array) -> tuple[float, Array]:
        found = flat.reshape(start.shape)
        each, slopes = _losses(target, np.clip(x @ found[:-1] + found[-1], -500, 500), y)
        slopes *= weights[:, None] / total
        pulled = x.pull(slopes) if isinstance(x, SparseRows) else x.T @ slopes
        value = float((weights * each).sum() / total + penalty / 2 * (found[:-1] ** 2).sum())
        return value, np.concatenate([pulled + penalty * found[:-1], slopes.sum(axis=0, keepdims=True)]).reshape(-1)

    return _minimise(loss, start.reshape(-1).astype(np.float64)).reshape(start.shape)


def _losses(target: Target, scores: Array, y: Array) -> tuple[Array, Array]:
    """The loss of each row, and its slope by the scores."""
    if target.kind == "regression":
        return ((scores - y) ** 2).sum(axis=1) / 2, scores - y
    if target.kind == "multi_label":
        return (np.logaddexp(0, scores) - y * scores).sum(axis=1), 1 / (1 + np.exp(-scores)) - y
    log_shares = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
    return -(y * log_shares).sum(axis=1), np.exp(log_shares) - y


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


def _ridge(x: Array, y: Array, weights: Array, penalty: float) -> Array:
    """Solved in the smaller of the two spaces: features, or rows."""
    middle, centre = (np.average(part, axis=0, weights=weights) for part in (x, y))  # the constant has no penalty
    scale = np.sqrt(weights)[:, None]
    inner, rest = (x - middle) * scale, (y - centre) * scale
    rows, width = inner.shape
    strength = penalty * float(weights.sum())
    if width <= rows:
        found = np.linalg.solve(inner.T @ inner + strength * np.eye(width), inner.T @ rest)
    else:
        found = inner.T @ np.linalg.solve(inner @ inner.T + strength * np.eye(rows), rest)
    return np.concatenate([found, (centre - middle @ found)[None]])
