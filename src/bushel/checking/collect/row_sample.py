"""Some records as rows of numbers: what rules about several features, neighbours and single rows look at."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.checking.collect.facts import MISSING, FileFacts, Place
from bushel.data.columns import BytesColumn, Ragged
from bushel.data.schema import BYTES_KIND
from bushel.records.files import Chunk
from bushel.records.scan import to_column

__all__ = ["RowReader", "RowSample", "sampled_features"]

MAX_ROWS = 20_000
MAX_WIDTH = 256  # values of a row
_WIDEST = 64  # values of one feature
_FEW = 0.02  # different records among all: there are not many to be had
_NEAR_WIDTH = 24  # up to which records that differ in two values are counted


@dataclass
class RowSample:
    """Rows of numbers. Short texts stand as hashes: equal or not is all that their numbers say."""

    features: list[str]  # of each column
    positions: list[int]  # of each column within its feature; -1 where the feature is one value
    is_number: NDArray[np.bool_]
    values: NDArray[np.float64]
    labels: NDArray[np.int64]
    files: NDArray[np.int64]
    records: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.values)

    def some(self, rows: NDArray[np.int64]) -> RowSample:
        """Some of the rows."""
        arrays = (self.values[rows], self.labels[rows], self.files[rows], self.records[rows])
        return RowSample(self.features, self.positions, self.is_number, *arrays)

    def unique(self) -> RowSample:
        """Each record once."""
        whole = np.ascontiguousarray(np.column_stack([np.nan_to_num(self.values), self.labels]))
        kinds = whole.view(np.dtype((np.void, whole.dtype.itemsize * whole.shape[1]))).ravel()
        return self.some(np.sort(np.unique(kinds, return_index=True)[1]))

    def place(self, row: int) -> Place:
        """Where a row comes from."""
        return int(self.files[row]), int(self.records[row])

    def columns(self, *, without: Set[str] = frozenset(), numbers: bool = False) -> NDArray[np.intp]:
        """Numbers of columns; constant ones say nothing and are left out."""
        varies = np.ptp(np.nan_to_num(self.values), axis=0) > 0 if len(self) else np.zeros(len(self.features), bool)
        wanted = np.array([name not in without for name in self.features], bool)
        return np.flatnonzero(wanted & varies & (self.is_number if numbers else True))

    def name(self, column: int) -> str:
        """A column in words."""
        return (
            f"{self.features[column]}[{self.positions[column]}]"
            if self.positions[column] >= 0
            else self.features[column]
        )

    def repeats_by_chance(self, without: Set[str]) -> bool:
        """Whether records agree in everything no oftener than records that just miss it would let expect.

        Values of few kinds repeat by themselves. Then far more records differ in one or two values than in none;
        among copies it is the other way round.
        """
        columns = self.columns(without=without)
        if not len(columns):
            return True
        rows = _ranked(self.values[:, columns])
        weights = np.random.default_rng(7).integers(1, 1 << 62, len(columns), dtype=np.int64) | 1
        parts = (rows + 1) * weights  # wraps around, as hashes do
        whole = parts.sum(axis=1)
        same = _pairs(whole)
        near = sum(_pairs(whole - parts[:, i]) - same for i in range(len(columns)))
        if len(np.unique(whole)) < _FEW * len(whole):
            return True
        if len(columns) <= _NEAR_WIDTH:
            pairs = combinations(range(len(columns)), 2) if len(columns) > 2 else ()  # else nothing is left to agree in
            near += sum(_pairs(whole - parts[:, i] - parts[:, j]) - same for i, j in pairs)
        else:
            near += int(50 * _pairs_of_independent(rows))
        return near >= max(same, 1)


def _ranked(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Equal values as equal numbers from 0 on, column by column."""
    filled = np.where(np.isnan(values), np.inf, values)
    return np.stack([np.unique(column, return_inverse=True)[1] for column in filled.T], axis=1).astype(np.int64)


def _pairs(hashes: NDArray[np.int64]) -> int:
    _, counts = np.unique(hashes, return_counts=True)
    return int((counts * (counts - 1) // 2).sum())


def _pairs_of_independent(rows: NDArray[np.int64]) -> float:
    """How many pairs would agree if columns had nothing to do with each other."""
    agree = [float(((np.bincount(column) / len(column)) ** 2).sum()) for column in rows.T]
    return float(np.exp(np.log(agree).sum())) * len(rows) * (len(rows) - 1) / 2


def sampled_features(facts: list[dict[str, Any]], label: str | None) -> dict[str, int]:
    """The features that rows are made of, and how many values each has."""
    found: dict[str, int] = {}
    for fact in facts:
        width = fact["max_count"] if fact["min_count"] == fact["max_count"] else 0
        is_short = width == 1 and fact["max_size"] < 16 if fact["kinds"][BYTES_KIND] else 0 < width <= _WIDEST
        if not fact["sequence"] and fact["name"] != label and is_short and sum(found.values()) + width <= MAX_WIDTH:
            found[fact["name"]] = width
    return found


@dataclass
class RowReader:
    """Keeps one in so many record of each file, so that no more than `MAX_ROWS` are kept of all."""

    features: dict[str, int]
    stride: int = 1
    kept: list[tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = field(
        default_factory=list
    )
    texts: set[str] = field(default_factory=set)

    @cached_property
    def wanted(self) -> list[tuple[str, bool, int]]:
        """As the core takes it."""
        return [(name, False, 0) for name in self.features]

    def add(self, chunk: Chunk, file: FileFacts, labels: NDArray[np.int64] | None, bad: set[int]) -> None:
        """Take some of the records of a chunk."""
        rows = np.arange(-chunk.first % self.stride, len(chunk.extents), self.stride)
        rows = rows[~np.isin(rows, list(bad))] if bad else rows
        if not len(rows) or not self.features:
            return
        decoded, _, _ = _native.decode(chunk.memory, np.ascontiguousarray(chunk.extents[rows]), self.wanted, False, 1)
        parts = [
            self._numbers(name, to_column(column), len(rows), width)
            for (name, width), column in zip(self.features.items(), decoded, strict=True)
        ]
        label = labels[rows] if labels is not None else np.full(len(rows), MISSING)
        self.kept.append((np.hstack(parts), label, np.full(len(rows), file.number), chunk.first + rows))
        self._thin()

    def _numbers(self, name: str, column: Any, rows: int, width: int) -> NDArray[np.float64]:
        """A matrix of the values, with NaN for what is missing or infinite."""
        out = np.full((rows, width), np.nan)
        if isinstance(column, BytesColumn):
            self.texts.add(name)
            if len(column) == rows:
                out[:, 0] = [hash_text(text) for text in column]
        elif isinstance(column, Ragged):
            values = column.values
            if isinstance(values, np.ndarray) and values.ndim == 1:
                for row in np.flatnonzero(column.lengths == width):
                    out[row] = values[column.row_splits[row] : column.row_splits[row] + width]
        elif column.size == rows * width:
            out[:] = np.asarray(column, np.float64).reshape(rows, width)
        return np.where(np.isfinite(out), out, np.nan)

    def _thin(self) -> None:
        while sum(len(part[0]) for part in self.kept) > MAX_ROWS:
            self.stride *= 2
            self.kept = [tuple(array[part[3] % self.stride == 0] for array in part) for part in self.kept]

    def merge(self, other: RowReader) -> None:
        """Take what was kept of one more file."""
        self.stride = max(self.stride, other.stride)
        self.kept += other.kept
        self.texts |= other.texts
        self.kept = [tuple(array[part[3] % self.stride == 0] for array in part) for part in self.kept]
        self._thin()

    def result(self) -> RowSample | None:
        """All rows; None if there are none."""
        if not self.kept:
            return None
        features = [name for name, width in self.features.items() for _ in range(width)]
        positions = [at if width > 1 else -1 for width in self.features.values() for at in range(width)]
        values, labels, files, records = (np.concatenate(arrays) for arrays in zip(*self.kept, strict=True))
        return RowSample(
            features, positions, np.array([name not in self.texts for name in features]), values, labels, files, records
        )


def hash_text(text: bytes) -> float:
    """A number for a short text, the same in every process."""
    return float(_native.xxh64(text, 0) >> 12)
