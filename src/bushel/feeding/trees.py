"""Gradient-boosted trees as plain arrays: stored, checked and evaluated with NumPy alone.

A run of `--model trees` keeps them in `model.npz`. FORMAT.md names its arrays.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.errors import FormatError, SchemaMismatch
from bushel.storage import AnyPath, as_path, write_whole

Array = NDArray[Any]

FORMAT = 1
LEVELS = 254  # distinct values of a category that trees tell apart; the others count as missing
_WORDS = 8  # 32-bit words of the set of levels that go left
_ROWS = 2048  # rows to evaluate at once
_WIDEST = 1_000_000  # columns of an input


class TableInput(msgspec.Struct, frozen=True, kw_only=True):
    """One input of the model as columns of a table; `levels` are the values of a category, by code."""

    name: str
    width: int = 1
    levels: list[int | str] | None = None


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    inputs: list[TableInput]
    format: int = FORMAT


@dataclass(frozen=True)
class Forest:
    """The nodes of all trees, one tree after the other; children come after their parents.

    A node with a feature below 0 is a leaf. A row goes left if its value is at most the threshold, or, where `levels`
    is not below 0, if its code is in that row of `level_sets`. Trees add the value of a leaf to their column.
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    levels: NDArray[np.int32]
    value: NDArray[np.float64]
    level_sets: NDArray[np.uint32]  # one row of bits for each split by levels
    roots: NDArray[np.int32]
    column: NDArray[np.int32]  # of each tree
    base: NDArray[np.float64]  # of each column, before the first tree

    def scores(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum of all trees for each row, one column per output."""
        parts = [self._scores(rows[at : at + _ROWS]) for at in range(0, max(1, len(rows)), _ROWS)]
        return np.concatenate(parts)

    def _scores(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        out = np.repeat(self.base[None], len(rows), axis=0)
        leaves = self.value[self._leaves(rows)]
        for column in range(len(self.base)):
            out[:, column] += leaves[:, self.column == column].sum(axis=1)
        return out

    def _leaves(self, rows: NDArray[np.float64]) -> NDArray[np.int32]:
        """The leaf that each row reaches in each tree: all go down one level at a time."""
        at = np.repeat(self.roots[None], len(rows), axis=0)
        moving = np.nonzero(self.feature[at] >= 0)
        while len(moving[0]):
            node = at[moving]
            values = rows[moving[0], self.feature[node]]
            is_missing = np.isnan(values)
            goes_left = values <= self.threshold[node]
            by_level = self.levels[node] >= 0
            if by_level.any():
                goes_left[by_level] = self._in_levels(node[by_level], values[by_level])
            goes_left = np.where(is_missing, self.missing_left[node], goes_left)
            node = np.where(goes_left, self.left[node], self.right[node])
            at[moving] = node
            inner = self.feature[node] >= 0
            moving = (moving[0][inner], moving[1][inner])
        return at

    def _in_levels(self, node: NDArray[np.int32], codes: NDArray[np.float64]) -> NDArray[np.bool_]:
        known = np.nan_to_num(codes).astype(np.int64)
        words = self.level_sets[self.levels[node], known >> 5]
        return np.asarray((words >> (known & 31).astype(np.uint32)) & 1, np.bool_)


@dataclass(frozen=True)
class Trees:
    """A fitted model: how its table is made of the model's inputs, and its trees."""

    inputs: list[TableInput]
    forest: Forest

    def __call__(self, x: Any) -> NDArray[np.float32]:
        """Scores for a batch as a contract arranges it: its only input, or a dict of all."""
        arrays = x if isinstance(x, Mapping) else {self.inputs[0].name: x}
        return self.forest.scores(table_rows(self.inputs, arrays)).astype(np.float32)

    def count_params(self) -> int:
        """How many numbers were learned: a threshold or a value per node."""
        return len(self.forest.feature)

    @cached_property
    def width(self) -> int:
        """The number of columns of its table."""
        return sum(given.width for given in self.inputs)


def table_rows(inputs: Sequence[TableInput], arrays: Mapping[str, Any]) -> NDArray[np.float64]:
    """The inputs of a batch as rows of numbers: missing values are NaN, and categories are codes."""
    parts = []
    for given in inputs:
        if given.name not in arrays:
            raise SchemaMismatch("the trees need this input", at=given.name)
        array = np.asarray(arrays[given.name])
        part = _codes(given.levels, array) if given.levels is not None else array.reshape(len(array), -1)
        if part.shape[1] != given.width:
            raise SchemaMismatch(f"the trees take {given.width} values, got {part.shape[1]}", at=given.name)
        parts.append(part.astype(np.float64))
    return np.concatenate(parts, axis=1)


def _codes(levels: list[int | str], array: Array) -> Array:
    codes = {level.encode() if isinstance(level, str) else level: code for code, level in enumerate(levels)}
    values = array.reshape(-1).tolist()
    return np.array([codes.get(value, np.nan) for value in values], np.float64).reshape(-1, 1)


def save_trees(trees: Trees, path: AnyPath) -> None:
    """Write trees as an uncompressed `.npz` of plain arrays, completely or not at all."""
    arrays = {field.name: getattr(trees.forest, field.name) for field in fields(Forest)}
    arrays["head"] = np.frombuffer(msgspec.json.encode(_Head(inputs=trees.inputs)), np.uint8)
    with write_whole(path) as file:
        np.savez(cast("Any", file), **cast("Any", arrays))


def load_trees(path: AnyPath) -> Trees:
    """Read trees, and check that evaluating them stays inside the arrays and comes to an end."""
    path = as_path(path)
    try:
        with path.open("rb") as opened:
            with zipfile.ZipFile(opened) as archive:  # stored as they are, arrays are no larger than the file
                if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                    raise ValueError("its arrays are compressed")
            opened.seek(0)
            with np.load(opened, allow_pickle=False) as file:
                head = msgspec.json.decode(file["head"].tobytes(), type=_Head)
                forest = Forest(**{field.name: file[field.name] for field in fields(Forest)})
        if head.format != FORMAT:
            raise ValueError(f"they have format {head.format}, and this bushel reads format {FORMAT}")
        trees = Trees(head.inputs, forest)
        _check(trees)
    except (OSError, ValueError, LookupError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise FormatError(path, f"not trees that bushel stored: {error}") from None
    return trees


_DTYPES = {
    "feature": np.int32,
    "threshold": np.float64,
    "left": np.int32,
    "right": np.int32,
    "missing_left": np.bool_,
    "levels": np.int32,
    "value": np.float64,
    "level_sets": np.uint32,
    "roots": np.int32,
    "column": np.int32,
    "base": np.float64,
}
_OF_NODES = ("feature", "threshold", "left", "right", "missing_left", "levels", "value")


def _check(trees: Trees) -> None:
    """Refuse arrays of other types or lengths, numbers out of range, and children that come before their parent."""
    forest = trees.forest
    _demand(all(0 < given.width <= _WIDEST for given in trees.inputs), "an input has a wrong width")
    for name, dtype in _DTYPES.items():
        array = getattr(forest, name)
        if array.dtype != dtype or array.ndim != (2 if name == "level_sets" else 1):
            raise ValueError(f"{name} is {array.dtype} with {array.ndim} axes")
    nodes = len(forest.feature)
    _demand(all(len(getattr(forest, name)) == nodes for name in _OF_NODES), "nodes have different numbers of fields")
    _demand(forest.level_sets.shape[1] == _WORDS, f"level_sets must have {_WORDS} columns")
    _demand(len(forest.column) == len(forest.roots) and len(forest.base) > 0, "trees and columns do not fit")
    _demand(_within(forest.column, len(forest.base)), "a tree names a column that is not there")
    ends = _check_roots(forest, nodes)
    inner = forest.feature >= 0
    numbers = np.arange(nodes)
    for children in (forest.left, forest.right):
        is_after = (children > numbers) & (children < ends)
        _demand(bool(is_after[inner].all()), "a child is outside its tree or comes before its parent")
    _demand(bool((forest.feature < trees.width).all()), "a split names a column that the inputs do not have")
    _demand(bool(np.isfinite(forest.value).all() and np.isfinite(forest.base).all()), "a value is not finite")
    _demand(not bool(np.isnan(forest.threshold).any()), "a threshold is not a number")
    _check_levels(trees, inner)


def _check_roots(forest: Forest, nodes: int) -> Array:
    """The end of the tree of each node."""
    roots = forest.roots
    is_sorted = len(roots) == 0 or (roots[0] == 0 and bool((np.diff(roots) > 0).all()) and roots[-1] < nodes)
    _demand(is_sorted and (len(roots) > 0 or nodes == 0), "the roots are not in order")
    bounds = np.append(roots, nodes).astype(np.int64)
    return np.repeat(bounds[1:], np.diff(bounds))


def _check_levels(trees: Trees, inner: Array) -> None:
    forest, counts = trees.forest, []
    for given in trees.inputs:
        _demand(given.levels is None or given.width == 1, f"{given.name} has a wrong width")
        _demand(given.levels is None or len(given.levels) <= LEVELS, f"{given.name} has too many levels")
        counts += [given.levels is not None] * given.width
    by_level = inner & (forest.levels >= 0)
    _demand(_within(forest.levels[by_level], len(forest.level_sets)), "a split names levels that are not there")
    is_category = np.array(counts, np.bool_)
    _demand(bool(is_category[forest.feature[by_level]].all()), "a split by levels is of a number")


def _within(numbers: Array, size: int) -> bool:
    return bool(((numbers >= 0) & (numbers < size)).all())


def _demand(is_right: bool, what: str) -> None:
    if not is_right:
        raise ValueError(what)
