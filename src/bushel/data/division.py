"""Dividing samples into splits: by a column, or by shares drawn from keys, by group or by class; and their order."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data import splits
from bushel.data.categories import Categories, Hashes, text_of
from bushel.errors import BushelError
from bushel.parallel import available_cores, map_in_threads

__all__ = ["Divided", "Division", "divide", "ordered_rows", "taken"]

Rows = NDArray[np.int64]
_MANY_ROWS = 1 << 18


@dataclass(frozen=True)
class Division:
    """How samples are divided, and the columns in which the source itself has splits and groups."""

    split: Mapping[str, float] | str | None = None
    resplit: bool = False
    exact: bool = False
    stratify: str | None = None
    requested_group: str | None = None
    seed: int = 0
    own_split: str | None = None
    own_group: str | None = None

    @property
    def split_column(self) -> str | None:
        """The column of splits: the requested one, or that of the source if no shares are given."""
        shares = splits.parse_shares(self.split)
        if isinstance(shares, str):
            return shares
        return self.own_split if self.split is None else None

    @property
    def kept_column(self) -> str | None:
        """The source's own column of splits, of which the test split is kept where shares divide the rest."""
        return None if self.resplit or self.split is None else self.own_split

    @property
    def group(self) -> str | None:
        """The column of groups: the requested one, or that of the source if shares are drawn."""
        if self.requested_group is not None or self.own_group is None or self.split is None or self.split_column:
            return self.requested_group
        if self.stratify is not None:
            raise ValueError(
                f"stratify must not be given: this source is split by {self.own_group!r}, not sample by sample"
            )
        return self.own_group

    @property
    def columns(self) -> list[str]:
        """The columns that decide the split."""
        names = (self.stratify, self.group, self.split_column or self.kept_column)
        return [name for name in names if name is not None]


@dataclass(frozen=True)
class Divided:
    """The names of splits, the number of each row's split, and what else was found."""

    names: list[str]
    split_of: NDArray[np.uint8]
    bounds: dict[str, list[int]] = field(default_factory=dict)  # of stratified splits, by class
    kept_test: int = 0  # samples of the source's own test split


def divide(
    division: Division,
    hashes: Hashes,
    columns: Mapping[str, Categories],
    *,
    known_bounds: Mapping[str, list[int]] | None = None,
    known_splits: Collection[str] = (),
) -> Divided:
    """The split of every row. `hashes` are those of keys; what is known belongs to a dataset that is added to."""
    return _Divider(division, hashes, columns, known_bounds or {}, known_splits).divide()


@dataclass(frozen=True)
class _Divider:
    division: Division
    hashes: Hashes
    columns: Mapping[str, Categories]
    known_bounds: Mapping[str, list[int]]
    known_splits: Collection[str]
    bounds: dict[str, list[int]] = field(default_factory=dict)

    def divide(self) -> Divided:
        division = self.division
        if division.split_column is not None:
            return self._by_column(division.split_column)
        shares = splits.parse_shares(division.split)
        assert not isinstance(shares, str)
        everything = np.arange(len(self.hashes))
        if (kept := self._kept_test()) is None:
            return Divided(list(shares), self._by_shares(everything, list(shares.values())), self.bounds)
        rest = splits.without_test(shares, division.split)
        found = np.full(len(everything), len(rest), np.uint8)
        found[~kept] = self._by_shares(everything[~kept], list(rest.values()))
        self._check_groups(found)
        return Divided([*rest, splits.TEST], found, self.bounds, int(kept.sum()))

    def _kept_test(self) -> NDArray[np.bool_] | None:
        """The samples of the source's test split; None if there are none, or if they may be mixed."""
        if (column := self.division.kept_column) is None:
            return None
        values = self.columns[column]
        codes = [code for code, name in enumerate(values.names()) if splits.as_split(name) == splits.TEST]
        found = np.isin(values.codes(), codes)
        return found if found.any() and not found.all() else None

    def _by_column(self, column: str) -> Divided:
        values = self.columns[column]
        if len(values.missing):
            raise BushelError(f"{len(values.missing):,} samples have no {column!r}, so they have no split")
        usual = splits.common_names(values.names(), self.known_splits)
        names = splits.in_order({splits.check_name(name) for name in usual.values()})
        in_order = np.array([names.index(usual[name]) for name in values.names()], np.uint8)
        found: NDArray[np.uint8] = in_order[values.codes()]
        self._check_groups(found)
        return Divided(names, found)

    def _by_shares(self, rows: Rows, parts: list[Any]) -> NDArray[np.uint8]:
        division = self.division
        hashes = self.hashes if division.group is None else self._group_hashes()
        draws = splits.draw(hashes[rows], division.seed, "split")
        classes = self.columns[division.stratify].codes()[rows] if division.stratify else None
        if division.exact:
            if division.group is not None:
                return splits.assign_groups_exactly(draws, parts)
            return splits.assign_exactly(draws, parts, classes)
        if classes is not None:
            return self._stratified(draws, parts, classes)
        return splits.assign(draws, splits.bounds_of(parts))

    def _stratified(self, draws: Any, parts: Any, classes: Any) -> NDArray[np.uint8]:
        names, known = self.columns[self.division.stratify or ""].names(), self.known_bounds
        found = splits.stratified_bounds(draws, parts, classes)
        bounds = {
            code: np.array(known[names[code]], np.uint64) if code >= 0 and names[code] in known else bound
            for code, bound in found.items()
        }
        fresh = {names[code]: [int(end) for end in bound] for code, bound in bounds.items() if code >= 0}
        self.bounds.update({**known, **fresh})
        return splits.assign_stratified(draws, bounds, classes, splits.bounds_of(parts))

    def _group_hashes(self) -> Hashes:
        assert self.division.group is not None
        groups = self.columns[self.division.group]
        if len(groups.missing):
            raise BushelError(
                f"{len(groups.missing):,} samples have no {self.division.group!r}, so they belong to no group",
                help=[f"The first is row {groups.missing[0]} of the source."],
            )
        return groups.hashes

    def _check_groups(self, split_of: NDArray[np.uint8]) -> None:
        """Refuse groups that are in more than one split."""
        if (name := self.division.group) is None:
            return
        hashes = self._group_hashes()
        groups = np.unique(hashes, return_inverse=True)[1].astype(np.int64)
        pairs = np.unique(groups * 256 + split_of)
        leaking = np.flatnonzero(np.bincount(pairs // 256) > 1)
        if len(leaking):
            group = self.columns[name].values[int(hashes[int(np.argmax(groups == leaking[0]))])]
            raise BushelError(
                f"{len(leaking):,} of {groups.max() + 1:,} groups are in more than one split; "
                f"the first is {text_of(group)!r}",
                help=[f"To split by {name!r} instead: --split 80/10/10 --resplit --group {name}"],
            )


def ordered_rows(hashes: Hashes, rows: Rows, *, seed: int, shuffled: bool) -> Rows:
    """Rows in the order in which they are written."""
    if not shuffled:
        return rows
    draws = splits.draw(taken(hashes, rows), seed, "order")
    order: Rows = _native.order_of(draws, available_cores())  # type: ignore[assignment]
    return taken(rows, order)


def taken(values: NDArray[Any], rows: Rows) -> NDArray[Any]:
    """`values[rows]`, in threads where there are many: most of the time goes into waiting for memory."""
    if len(rows) < _MANY_ROWS:
        return values[rows]
    out = np.empty(len(rows), values.dtype)
    spans = [slice(at, at + _MANY_ROWS) for at in range(0, len(rows), _MANY_ROWS)]
    for _ in map_in_threads(lambda span: np.take(values, rows[span], out=out[span], mode="clip"), spans):
        pass
    return out
