"""Finding records: a search goes through a split in the background, and what it found so far can be shown."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Ragged
from bushel.errors import BushelError, reason_of
from bushel.reading.dataset import Split
from bushel.reading.expressions import parse
from bushel.records.scan import to_column
from bushel.viewing.opened import OpenedSplit
from bushel.viewing.showing import CannotShow, brightness

__all__ = ["BRIGHTNESS", "MOST_FOUND", "MOST_SORTED", "SIZE", "Query", "Search"]

Ints: TypeAlias = NDArray[np.int64]

SIZE, BRIGHTNESS = "size", "brightness"  # orders that are not features
MOST_FOUND = 1_000_000  # records that a search keeps
MOST_SORTED = 100_000  # records that an order keeps
_AT_A_TIME = 1 << 17  # records between two looks at what was found
_TEXTS_AT_A_TIME = 4096


@dataclass(frozen=True)
class Query:
    """What to look for, and in which order to show it."""

    where: str = ""
    text: str = ""
    sort: str = ""
    descending: bool = False
    chosen: str = ""  # the name of a list of records, as those of a finding

    @property
    def is_empty(self) -> bool:
        """Whether it asks for all records in their order."""
        return self in (Query(), Query(descending=True))


class Search:
    """One search. `rows` grows while it runs, unless there is an order: then they come at the end."""

    def __init__(
        self, part: OpenedSplit, query: Query, chosen: Sequence[int] | None = None, image: str | None = None
    ) -> None:
        self.part = part
        self.query = query
        self.image = image  # the feature whose brightness is meant
        self.problem: str | None = None
        self.note = ""
        self.seen = 0
        self.is_done = False
        self._chosen = None if chosen is None else np.asarray(chosen, np.int64)
        self._found: list[Ints] = []
        self._keys: list[Any] = []
        self._count = 0
        self._changed = threading.Condition()
        self._is_stopped = False

    def start(self) -> Search:
        """Begin in the background. A condition that cannot be understood is an error right away."""
        self._check()
        threading.Thread(target=self._run, daemon=True).start()
        return self

    def stop(self) -> None:
        """Leave the rest unread."""
        self._is_stopped = True

    def wait(self, seconds: float, enough: int) -> None:
        """Wait until it is done, or has found enough, but not longer than some seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_done or (not self.query.sort and self._count >= enough), seconds)

    @property
    def rows(self) -> Ints:
        """What was found so far, in order."""
        with self._changed:
            if self.query.sort and not self.is_done:
                return np.empty(0, np.int64)
            if len(self._found) > 1:
                self._found = [np.concatenate(self._found)]
            return self._found[0] if self._found else np.empty(0, np.int64)

    def _check(self) -> None:
        split = self.part.split
        if self.query.where:
            codes = {split.label: split.classes} if split.classes else {}
            parse(self.query.where, list(self.part.schema), codes)
        name = _feature_of(self.query.sort)
        if name and name not in self.part.schema:
            raise BushelError(f"there is no feature {name!r} to sort by")
        if self.query.sort == BRIGHTNESS and self.image is None:
            raise BushelError("there are no images whose brightness could be compared")

    def _run(self) -> None:
        try:
            if self._chosen is not None:
                self._take_chosen(self._chosen)
            else:
                self._look_through()
            if self.query.sort:
                self._put_in_order()
        except Exception as error:  # data is untrusted: whatever it breaks is shown
            self.problem = str(error) if isinstance(error, BushelError) else reason_of(error)
        with self._changed:
            self.is_done = True
            self._changed.notify_all()

    def _take_chosen(self, rows: Ints) -> None:
        """Filter and sort records that are chosen already."""
        if not (self.query.where or self.query.text or self.query.sort):
            self._add(rows, None)
            return
        for row in rows.tolist():
            number, record = self.part.locate(row)
            one, first = self.part.shard(number), row - record
            self._take(one, first, np.array([record], np.int64))

    def _look_through(self) -> None:
        only = self.part.rows
        for first, shard in self.part.each_shard():
            count = len(shard.shards)
            step = count if "length(" in self.query.where else _AT_A_TIME
            for begin in range(0, count, max(1, step)):
                if self._is_stopped or self._count >= MOST_FOUND:
                    self.note = f"Only the first {self._count:,} are shown." if not self._is_stopped else ""
                    return
                rows = np.arange(begin, min(begin + step, count), dtype=np.int64)
                self._take(shard, first, rows if only is None else rows[np.isin(rows + first, only)])
                self.seen = first + min(begin + step, count)

    def _take(self, shard: Split, first: int, rows: Ints) -> None:
        """Look at some records of one shard."""
        if self.query.where or _feature_of(self.query.sort):
            rows = shard.usable(rows)  # damaged records have no values
        if self.query.where and len(rows):
            found = shard.select(rows).filter(self.query.where).rows
            rows = rows if found is None else found
        if self.query.text and len(rows):
            rows = rows[_holding(shard, rows, self.query.text)]
        keys = self._keys_of(shard, first, rows) if self.query.sort else None
        self._add(rows + first, keys)

    def _add(self, rows: Ints, keys: Any) -> None:
        with self._changed:
            self._found.append(rows)
            self._count += len(rows)
            if keys is not None:
                self._keys.append(keys)
                if self._count > 2 * MOST_SORTED:
                    self._keep_first()
            self._changed.notify_all()

    def _keys_of(self, shard: Split, first: int, rows: Ints) -> Any:
        sort = self.query.sort
        if sort == SIZE:
            return shard.shards.shards[0].index.lengths[rows].astype(np.float64)
        if sort == BRIGHTNESS:
            return np.array([self._brightness(first + row) for row in rows.tolist()], np.float64)
        name = _feature_of(sort)
        if sort != name:
            return shard.lengths(name)[rows].astype(np.float64)
        column: Any = shard.read(rows, [name])[name]
        if isinstance(column, Ragged):
            firsts = [next(iter(values), None) for values in (column[at] for at in range(len(column)))]
            return np.array([np.nan if value is None else value for value in firsts])
        if isinstance(column, BytesColumn):
            return np.array([value.decode("utf-8", "replace")[:64] for value in column], np.str_)
        values = np.asarray(column)
        if values.ndim != 1:
            raise BushelError(f"{name} has several values per record; sort by length({name}) instead")
        return values.astype(np.float64)

    def _brightness(self, row: int) -> float:
        values = self.part.record(row).values
        try:
            return brightness(values.get(self.image or ""), "image")
        except (CannotShow, ValueError):
            return float("nan")

    def _put_in_order(self) -> None:
        with self._changed:
            if self._count > MOST_SORTED:
                self.note = f"Only the first {MOST_SORTED:,} in this order are shown."
            self._keep_first()

    def _keep_first(self) -> None:
        """Keep the records that come first in the order."""
        if not self._keys:
            return
        rows, keys = np.concatenate(self._found), np.concatenate(self._keys)
        order = np.argsort(keys, kind="stable")  # values that are missing come last
        if self.query.descending:
            missing = int(np.isnan(keys).sum()) if keys.dtype.kind == "f" else 0
            order = np.concatenate([order[: len(order) - missing][::-1], order[len(order) - missing :]])
        order = order[:MOST_SORTED]
        self._found, self._keys = [rows[order]], [keys[order]]


def _feature_of(sort: str) -> str:
    """The feature that an order is about; empty for those of whole records."""
    if sort in ("", SIZE, BRIGHTNESS):
        return ""
    return sort.removeprefix("length(").removesuffix(")") if sort.startswith("length(") else sort


def _holding(shard: Split, rows: Ints, text: str) -> NDArray[np.bool_]:
    """Which records hold a text, in any of their texts or as the name of their class."""
    names = [name for name, feature in shard.schema.features.items() if feature.dtype == "str"]
    needle, found = text.lower().encode(), np.zeros(len(rows), bool)
    wanted = shard.wanted(names)
    for begin in range(0, len(rows), _TEXTS_AT_A_TIME):
        some = rows[begin : begin + _TEXTS_AT_A_TIME]
        for column in shard.shards.decode(some, wanted).columns if names else ():
            here = to_column(column)
            for at, value in enumerate(_joined(here, len(some))):
                found[begin + at] |= needle in value.lower()
    codes = [code for code, name in enumerate(shard.classes) if text.lower() in name.lower()]
    if codes and shard.label in shard.schema:
        good = shard.usable(rows)
        named = shard.select(good).where(shard.label, codes).rows
        found |= np.isin(rows, good if named is None else named)
    return found


def _joined(column: Any, count: int) -> list[bytes]:
    if isinstance(column, BytesColumn):
        return [bytes(value) for value in column]
    if isinstance(column, Ragged) and isinstance(column.values, BytesColumn):
        return [b"\n".join(column[at]) for at in range(len(column))]
    return [b""] * count
