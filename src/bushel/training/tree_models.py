"""Gradient-boosted trees for tables: fitted by scikit-learn round by round, and kept as plain arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.errors import SchemaMismatch, missing_package
from bushel.feeding.preparation import Input, Problem, Target
from bushel.feeding.trees import LEVELS, Forest, TableInput, Trees, table_rows
from bushel.training.loop.learner import Learner
from bushel.training.models import Compiled
from bushel.training.options import Options
from bushel.training.predictions import Predictor

__all__ = ["KINDS", "ROUNDS", "Booster", "is_for_network", "tree_options"]

Array = NDArray[Any]
ROUNDS = 10  # of boosting, in each epoch
_EPOCHS = 50
_PATIENCE = 3  # epochs
_SMALL = 2000  # records below which trees are smaller and learn more slowly
_LOSSES = {None: "squared_error", "mean_squared_error": "squared_error", "mean_absolute_error": "absolute_error"}
KINDS = ("number", "category", "sparse", "series")
_NEVER = -30.0  # the score of a class that train does not have
_WORTH_THREADS = 1_000_000  # values of a table
_CHECKED = 1000  # rows whose scores are compared with scikit-learn's
_OF_NETWORKS = ("weights", "schedule", "warmup", "optimiser", "precision", "augment", "strategy", "checkpoint_every")


def is_for_network(options: Options) -> bool:
    """Whether an option was given that only networks have."""
    default = Options()
    return options.loss is not None or any(getattr(options, name) != getattr(default, name) for name in _OF_NETWORKS)


def tree_options(options: Options) -> Options:
    """The options with a length; those that only networks have are refused."""
    default = Options()
    for name in _OF_NETWORKS:
        if getattr(options, name) != getattr(default, name):
            raise ValueError(f"{name} must be left out for trees, got {getattr(options, name)!r}")
    if options.loss not in _LOSSES:
        known = ", ".join(name for name in _LOSSES if name)
        raise ValueError(f"loss must be one of {known} for trees that predict numbers; got {options.loss!r}")
    if options.epochs is not None:
        return options
    return msgspec.structs.replace(options, epochs=_EPOCHS, early_stopping=options.early_stopping or _PATIENCE)


class Booster(Learner):
    """Trees that grow by some rounds at a time."""

    def __init__(self, problem: Problem, options: Options, *, records: int) -> None:
        for given in problem.inputs:
            if given.kind not in KINDS:
                raise SchemaMismatch(
                    f"trees are for tables, and this is fed as {given.kind}",
                    at=given.name,
                    help=["Leave --model out for a network, or choose other features with --columns."],
                )
        self.problem = problem
        self.options = options
        self.is_small = records < _SMALL
        is_regression = problem.target.kind == "regression"
        self.loss = str(_LOSSES[options.loss]) if is_regression else "log_loss"
        self.compiled = Compiled(
            loss=self.loss,
            optimiser="boosting",
            learning_rate=options.learning_rate or (0.05 if self.is_small else 0.1),
            form="numbers" if is_regression else "codes",
            gives="numbers" if is_regression else "logits",
        )
        self.predictor = Predictor(self._scores, problem, self.compiled.gives)
        self.inputs: list[TableInput] = []
        self.fitted: list[tuple[Any, list[int]]] = []  # estimators of scikit-learn, and the classes that each knows
        self.model: Any = None  # Trees, once they are fitted

    def _scores(self, x: Any) -> Array:
        return np.asarray(self.model(x))

    @property
    def summary(self) -> str:
        """How many trees there are, and how large."""
        if self.model is None:
            return "gradient-boosted trees"
        forest = self.model.forest
        columns = ", ".join(f"{given.name} ({given.width})" for given in self.model.inputs)
        return (
            f"gradient-boosted trees: {len(forest.roots):,} trees with {len(forest.feature):,} nodes, "
            f"{len(forest.base)} outputs\ninputs (columns): {columns}"
        )

    def gradients(self, x: Any, labels: Array) -> None:
        """Trees have none."""

    def begin(self, arrays: dict[str, Array], labels: Array) -> Array:
        """Choose the columns of the table by the records to learn from, and make the estimators. Returns the rows."""
        self.inputs = _table_inputs(self.problem.inputs, arrays)
        rows = table_rows(self.inputs, arrays)
        target = self.problem.target
        columns = labels.shape[1] if labels.ndim > 1 else 1
        is_category = [given.levels is not None for given in self.inputs for _ in range(given.width)]
        for number in range(columns):
            truth = labels[:, number] if labels.ndim > 1 else labels
            known = [] if target.kind == "regression" else np.unique(truth).astype(int).tolist()
            if target.is_classes and len(known) < 2:
                raise SchemaMismatch("all records of train have the same label", at=target.label)
            estimator = None if len(known) == 1 else self._estimator(is_category, len(rows))
            self.fitted.append((estimator, known))
        return rows

    def _estimator(self, is_category: list[bool], rows: int) -> Any:
        try:
            from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
        except ImportError:
            raise missing_package("scikit-learn", extra="trees", purpose="--model trees") from None
        kind = HistGradientBoostingRegressor if self.compiled.gives == "numbers" else HistGradientBoostingClassifier
        estimator = kind(
            loss=self.loss,
            learning_rate=self.compiled.learning_rate,
            max_leaf_nodes=8 if self.is_small else 31,
            min_samples_leaf=int(np.clip(rows // 20, 2, 20)),
            l2_regularization=1.0,
            categorical_features=is_category if any(is_category) else None,
            early_stopping=False,
            warm_start=True,
            random_state=self.options.seed,
        )
        _bin_once(estimator)
        return estimator

    def boost(self, rows: Array, labels: Array, weights: Array | None, *, rounds: int) -> None:
        """Let the trees grow to so many rounds in all."""
        with _few_threads(rows):
            for number, (estimator, _) in enumerate(self.fitted):
                if estimator is not None:
                    truth = labels[:, number] if labels.ndim > 1 else labels
                    estimator.set_params(max_iter=rounds).fit(rows, truth, sample_weight=weights)
            forest = _forest(self.problem.target, self.fitted)
            self._compare(rows[:_CHECKED], forest)
        self.model = Trees(self.inputs, forest)

    def _compare(self, rows: Array, forest: Forest) -> None:
        """Refuse to go on if a version of scikit-learn means something else by the numbers in its trees."""
        scores = forest.scores(rows)
        for number, (estimator, known) in enumerate(self.fitted):
            if estimator is None:
                continue
            theirs = estimator.decision_function(rows) if known else estimator.predict(rows)
            ours = scores[:, _columns(self.problem.target, number, known)]
            if not np.allclose(ours, np.asarray(theirs).reshape(len(rows), -1), rtol=1e-6, atol=1e-6):
                raise ImportError("this version of scikit-learn stores its trees in a way that bushel does not know")


def _bin_once(estimator: Any) -> None:
    """Let the first fit sort the rows into bins, for all fits: with weights, that takes longer than some trees."""
    bin_rows: Any = getattr(estimator, "_bin_data", None)
    kept: list[tuple[Any, Any]] = []

    def binned(*given: Any, **more: Any) -> Any:
        if not kept:
            kept.append((bin_rows(*given, **more), estimator._bin_mapper))
        rows, estimator._bin_mapper = kept[0]
        return rows

    if bin_rows is not None:  # a version of scikit-learn may do it elsewhere
        estimator._bin_data = binned


def _few_threads(rows: Array) -> contextlib.AbstractContextManager[Any]:
    """One thread for a small table: threads that wait for each other are slower, far more so on busy cores."""
    from threadpoolctl import threadpool_limits  # which scikit-learn needs

    limits: contextlib.AbstractContextManager[Any] = threadpool_limits(
        1 if rows.size < _WORTH_THREADS else None, user_api="openmp"
    )
    return limits


def _table_inputs(inputs: Sequence[Input], arrays: dict[str, Array]) -> list[TableInput]:
    """The inputs as columns, categories first, as scikit-learn orders them."""
    found = []
    for given in sorted(inputs, key=lambda given: given.kind != "category"):
        array = arrays[given.name]
        if given.kind != "category":
            found.append(TableInput(name=given.name, width=int(np.prod(array.shape[1:], dtype=np.int64))))
            continue
        seen = set(array.reshape(-1).tolist())
        levels = [value for value in given.values if (value.encode() if isinstance(value, str) else value) in seen]
        found.append(TableInput(name=given.name, levels=levels[:LEVELS]))
    return found


def _columns(target: Target, number: int, known: list[int]) -> list[int]:
    """The columns of the scores that an estimator fills: with two classes it gives the score of the second."""
    if not target.is_classes:
        return [number]
    if len(known) == 2:
        return [0 if target.outputs == 1 else known[1]]
    return known


def _forest(target: Target, fitted: list[tuple[Any, list[int]]]) -> Forest:
    """The trees of all estimators, one after the other."""
    base = np.zeros(target.outputs)
    if target.is_classes and target.outputs > 1:
        base += _NEVER
        base[fitted[0][1]] = 0.0
    parts: list[dict[str, Array]] = []
    sets: list[Array] = []
    roots, columns, nodes, set_count = [], [], 0, 0
    for number, (estimator, known) in enumerate(fitted):
        if estimator is None:  # a label that all records of train have, or none
            base[number] = -_NEVER if known[0] else _NEVER
            continue
        places = _columns(target, number, known)
        base[places] = np.asarray(estimator._baseline_prediction, np.float64).reshape(-1)
        for each in estimator._predictors:
            for place, tree in zip(places, each, strict=True):
                roots.append(nodes)
                columns.append(place)
                parts.append(_nodes(tree.nodes, nodes, set_count))
                sets.append(tree.raw_left_cat_bitsets)
                nodes, set_count = nodes + len(tree.nodes), set_count + len(tree.raw_left_cat_bitsets)
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return Forest(
        **joined,
        level_sets=np.concatenate(sets).astype(np.uint32).reshape(-1, 8),
        roots=np.array(roots, np.int32),
        column=np.array(columns, np.int32),
        base=base,
    )


def _nodes(nodes: Any, first: int, first_set: int) -> dict[str, Array]:
    is_leaf, by_level = nodes["is_leaf"] == 1, nodes["is_categorical"] == 1
    return {
        "feature": np.where(is_leaf, -1, nodes["feature_idx"]).astype(np.int32),
        "threshold": np.where(is_leaf | by_level, 0.0, nodes["num_threshold"]),
        "left": np.where(is_leaf, 0, nodes["left"].astype(np.int64) + first).astype(np.int32),
        "right": np.where(is_leaf, 0, nodes["right"].astype(np.int64) + first).astype(np.int32),
        "missing_left": nodes["missing_go_to_left"] == 1,
        "levels": np.where(by_level, nodes["bitset_idx"].astype(np.int64) + first_set, -1).astype(np.int32),
        "value": np.where(is_leaf, nodes["value"], 0.0),
    }
