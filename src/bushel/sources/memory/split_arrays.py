"""Arrays that come apart into splits: `x_train` and `y_test`, as Keras' `mnist.npz` has them, and pairs of pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bushel.data.columns import BytesColumn, Column, concatenate
from bushel.data.splits import split_of_name
from bushel.errors import SchemaMismatch

__all__ = ["are_splits", "from_pairs", "join_splits"]

_LABELS = ("y", "label", "labels", "target", "targets")


def from_pairs(data: Any) -> dict[str, Any] | None:
    """`((x, y), (x, y))`, or three such pairs, by name: what the `load_data` functions of Keras return."""
    if not isinstance(data, tuple) or len(data) not in (2, 3) or not all(_is_pair(pair) for pair in data):
        return None
    names = ("train", "test") if len(data) == 2 else ("train", "val", "test")
    return {f"{part}_{name}": pair[at] for name, pair in zip(names, data, strict=True) for at, part in enumerate("xy")}


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and all(hasattr(part, "shape") for part in value)


def are_splits(names: Iterable[str]) -> bool:
    """Whether all names end, or begin, with a split, and there are several."""
    told = [_told(name) for name in names]
    return all(told) and len({one[1] for one in told if one}) > 1


def join_splits(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Columns named after splits as columns of all rows, and one of splits."""
    found: dict[str, dict[str, Column]] = {}
    for name, column in columns.items():
        part, split = _told(name) or (name, "")
        found.setdefault(split, {})[part] = column
    parts = list(next(iter(found.values())))
    rows: dict[str, int] = {}
    for split, own in found.items():
        if set(own) != set(parts):
            raise SchemaMismatch(f"splits must have the same arrays, got {', '.join(columns)}", at=split)
        counts = {len(column) for column in own.values()}
        if len(counts) > 1:
            said = ", ".join(f"{name}_{split} {len(column)}" for name, column in own.items())
            raise SchemaMismatch(f"arrays of one split must have the same number of rows, got {said}", at=split)
        rows[split] = counts.pop()
    joined = {
        "label" if part in _LABELS else part: _scalars(concatenate([own[part] for own in found.values()]))
        for part in parts
    }
    numbers = np.repeat(np.arange(len(rows)), list(rows.values()))
    return joined | {"split": BytesColumn.of(list(rows)).take(numbers)}


def _told(name: str) -> tuple[str, str] | None:
    """The array and the split that a name says."""
    before, _, after = name.rpartition("_")
    if before and (split := split_of_name(after)):
        return before, split
    before, _, after = name.partition("_")
    split = split_of_name(before)
    return (after, split) if split and after else None


def _scalars(column: Column) -> Column:
    """One value per row where rows are lists of one, as the labels of CIFAR are."""
    if isinstance(column, np.ndarray) and column.ndim == 2 and column.shape[1] == 1:
        return np.ascontiguousarray(column[:, 0])
    return column
