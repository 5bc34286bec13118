"""How rows of different lengths become arrays: padded, bucketed by length, packed, or sparse."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.columns import Column, Ragged, SparseColumn, as_ragged, join_sparse, splits_of, take
from bushel.errors import MissingName, SchemaMismatch
from bushel.reading.order import Sampler, permute

__all__ = ["Bucket", "Dense", "Layout", "Pack", "Pad", "Sparse", "SparseColumn", "bucketed"]

Ints: TypeAlias = NDArray[np.int64]
_GROUPS = 16  # salt of the permutation of buckets; `order` uses those below


class Pad(msgspec.Struct, frozen=True):
    """Pad a feature to one length: that of the longest row, rounded up, or a fixed one, to which longer rows are cut.

    `FEATURE/mask` in the batch marks real values.
    """

    feature: str
    length: int | None = None
    multiple: int = 1
    fill: float = 0
    mask: bool = True

    def __post_init__(self) -> None:
        if self.length is not None and self.length < 1:
            raise ValueError(f"length must be at least 1, got {self.length}")
        if self.multiple < 1:
            raise ValueError(f"multiple must be at least 1, got {self.multiple}")

    def apply(self, columns: dict[str, Column]) -> tuple[dict[str, Column], int]:
        """The columns with this one padded, and how many rows were cut."""
        column = as_ragged(_column(columns, self.feature))
        values = _numbers(column, self.feature)
        longest = int(column.lengths.max(initial=0))
        length = self.length or -(-longest // self.multiple) * self.multiple
        inner = values.shape[1:]
        filled, mask = _native.pad(values, column.row_splits, length, _one(self.fill, values))
        padded = filled.view(values.dtype).reshape(len(column), length, *inner)
        out = {**columns, self.feature: padded}
        if self.mask:
            out[f"{self.feature}/mask"] = mask.reshape(len(column), length)
        cut = int((column.lengths > length).sum()) if longest > length else 0
        return out, cut


class Bucket(msgspec.Struct, frozen=True):
    """Put records of similar length into one batch.

    The records of `window` batches are sorted by length and cut into batches, which are shuffled.
    """

    feature: str
    window: int = 64

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ValueError(f"window must be at least 1, got {self.window}")


class Pack(msgspec.Struct, frozen=True):
    """Lay several records side by side in rows of `length` values, fitted within `window` records; longer ones are cut.

    `FEATURE/segments` numbers them (1, 2, ..., and 0 for padding), `FEATURE/positions` is the place in each.
    `also` names features of the same lengths to lay out in the same way. All others become one list per row.
    """

    feature: str
    length: int
    also: tuple[str, ...] = ()
    window: int = 4096
    fill: float = 0

    def __post_init__(self) -> None:
        for name in ("length", "window"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")

    def apply(self, columns: dict[str, Column], bins: Ints, count: int) -> tuple[dict[str, Column], int]:
        """Rows of records as `count` rows of bins, and how many records were cut."""
        main = as_ragged(_column(columns, self.feature))
        out: dict[str, Column] = {}
        by_bin = np.argsort(bins, kind="stable")
        splits = splits_of(np.bincount(bins, minlength=count))
        for name, column in columns.items():
            if name != self.feature and name not in self.also:
                out[name] = Ragged(take(column, by_bin), splits)
                continue
            ragged = as_ragged(column)
            if not np.array_equal(ragged.lengths, main.lengths):
                raise SchemaMismatch(f"features packed together must have the lengths of {self.feature!r}", at=name)
            values = _numbers(ragged, name)
            laid, segments, places = _native.lay_out(
                values, ragged.row_splits, bins, count, self.length, _one(self.fill, values)
            )
            out[name] = laid.view(values.dtype).reshape(count, self.length, *values.shape[1:])
            if name == self.feature:
                out[f"{name}/segments"] = segments.reshape(count, self.length)
                out[f"{name}/positions"] = places.reshape(count, self.length)
        return out, int((main.lengths > self.length).sum())


class Sparse(msgspec.Struct, frozen=True):
    """Join `FEATURE/indices` and `FEATURE/values` into sparse rows of `size` values.

    Features that are sparse in the schema are joined already.
    """

    feature: str
    size: int

    def apply(self, columns: dict[str, Column]) -> tuple[dict[str, Any], int]:
        """The columns with these two joined."""
        names = (f"{self.feature}/indices", f"{self.feature}/values")
        joined = join_sparse(self.feature, _column(columns, names[0]), _column(columns, names[1]), self.size)
        return {**{k: v for k, v in columns.items() if k not in names}, self.feature: joined}, 0


class Dense(msgspec.Struct, frozen=True):
    """Make a sparse feature dense, for models that do not take sparse ones."""

    feature: str

    def apply(self, columns: dict[str, Column]) -> tuple[dict[str, Column], int]:
        """The columns with this one dense."""
        column: Any = _column(columns, self.feature)
        if not isinstance(column, SparseColumn):
            raise SchemaMismatch("only sparse features are made dense", at=self.feature)
        return {**columns, self.feature: column.to_dense()}, 0


Layout: TypeAlias = Pad | Bucket | Pack | Sparse | Dense


def bucketed(sampler: Sampler, lengths: Ints, batch_size: int, *, window: int, seed: int) -> Sampler:
    """The same records in another order: the positions of a window sorted by length, `batch_size` at a time."""
    records = window * batch_size

    @lru_cache(maxsize=4)
    def arranged(epoch: int, number: int) -> Ints:
        first = number * records
        rows = sampler.rows(epoch, np.arange(first, min(first + records, sampler.size)))
        by_length = rows[np.argsort(lengths[rows], kind="stable")]
        whole = len(rows) // batch_size
        runs = permute(np.arange(whole), whole, seed, epoch, _GROUPS, number) if whole else np.empty(0, np.int64)
        shuffled = by_length[: whole * batch_size].reshape(whole, batch_size)[runs].reshape(-1)
        return np.concatenate([shuffled, by_length[whole * batch_size :]])

    def rows(epoch: int, positions: Ints) -> Ints:
        out = np.empty_like(positions)
        for number in np.unique(positions // records).tolist():
            at = np.flatnonzero(positions // records == number)
            out[at] = arranged(epoch, number)[positions[at] - number * records]
        return out

    return Sampler(sampler.size, rows)


def check_layout(layout: Sequence[Layout]) -> None:
    """At most one bucket or pack: both decide which records come together."""
    if sum(isinstance(step, Bucket | Pack) for step in layout) > 1:
        raise ValueError("layout must hold at most one Bucket or Pack, got several")


def _column(columns: dict[str, Column], name: str) -> Column:
    if name not in columns:
        raise MissingName("column", name, columns, where="layout")
    return columns[name]


def _numbers(column: Ragged, name: str) -> NDArray[Any]:
    if not isinstance(column.values, np.ndarray):
        raise SchemaMismatch("only numbers can be padded, packed or sparse", at=name)
    return np.ascontiguousarray(column.values)


def _one(fill: float, like: NDArray[Any]) -> bytes:
    """One value (with all its inner sizes) of the fill, as bytes."""
    return np.full(like.shape[1:], fill, like.dtype).tobytes()
