"""Records of many shards by one number, decoded where they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.errors import CorruptRecord, Fault, FileProblem, quantity
from bushel.records.files import FOOTER, HEADER, Skipped
from bushel.records.index import Index, obtain_index
from bushel.records.manifest import Shard as Promised
from bushel.storage import describe_os_error, status_of

__all__ = ["Decoded", "MappedShards", "Shard", "ShardSet", "Wanted", "load_indexes"]

Ints: TypeAlias = NDArray[np.int64]
Wanted: TypeAlias = list[tuple[str, bool, int]]  # name, is a feature list, kind
RowFaults: TypeAlias = list[tuple[int, int, int]]  # row, fault, column or -1
T = TypeVar("T")
_INDEXES_AT_ONCE = 16


@dataclass(frozen=True)
class Decoded:
    """Columns as the core returns them, the rows at fault, and how long it took to have the records in memory."""

    columns: list[dict[str, Any]]
    faults: RowFaults
    seconds_fetching: float


class Shard:
    """One file; where its records are is found out when it is first needed."""

    def __init__(self, path: Path, promised: Promised | None = None, is_fetched: bool = False) -> None:
        self.path = path
        self.promised = promised  # what the manifest says of it
        self._is_fetched = is_fetched  # records are then numbered by the manifest, before any index is there
        try:
            self.size = status_of(path).size
        except FileNotFoundError:
            raise FileProblem(path, "there is no such file") from None

    @cached_property
    def indexed(self) -> tuple[Index, dict[int, Skipped]]:
        """The index, and the places in it that hold no record but damage."""
        index, damage = obtain_index(self.path)
        if self._is_fetched and self.promised is not None and len(index) != self.promised.records:
            raise FileProblem(self.path, _other_count(len(index), self.promised))
        return index, damage

    @property
    def index(self) -> Index:
        """Where its records are."""
        return self.indexed[0]

    @property
    def damage(self) -> dict[int, Skipped]:
        """The places that hold no record."""
        return self.indexed[1]

    @cached_property
    def problem(self) -> str | None:
        """What the manifest says otherwise of this file. Damage within it is found when it is read."""
        told = self.promised
        if told is None:
            return None
        if self.size != told.bytes:
            return f"has {quantity(self.size, 'byte')}, and the manifest says {told.bytes:,}"
        if self._is_fetched or self.damage:
            return None
        if len(self.index) != told.records:
            return _other_count(len(self.index), told)
        if self.index.sha256 not in ("", told.sha256):
            return f"is another file than the manifest says: SHA-256 {self.index.sha256[:12]}…, not {told.sha256[:12]}…"
        return None

    @property
    def missing(self) -> int:
        """How many more records the manifest says there are; what is damaged is not missing."""
        return max(0, self.promised.records - len(self.index)) if self.promised else 0

    def skipped(self, record: int, fault: int) -> Skipped:
        """A record at fault in full."""
        if record in self.damage:
            return self.damage[record]
        offset, length = int(self.index.offsets[record]), int(self.index.lengths[record])
        return Skipped(str(self.path), record, offset, HEADER + length + FOOTER, Fault(fault))


def _other_count(records: int, promised: Promised) -> str:
    return f"has {quantity(records, 'record')}, and the manifest says {promised.records:,}"


def load_indexes(shards: Iterable[Shard]) -> None:
    """Load the indexes of shards, several at a time, if they are not loaded."""
    missing = [shard for shard in shards if "indexed" not in shard.__dict__]
    if len(missing) == 1:
        len(missing[0].index)
    elif missing:
        with ThreadPoolExecutor(_INDEXES_AT_ONCE) as pool:
            list(pool.map(lambda shard: len(shard.index), missing))


_READ_ON = 'To read what is there, and have the rest reported: bushel.batches(..., on_fault="skip")'


class ShardSet:
    """Shards whose records are numbered consecutively. What decodes them is up to the kind of shards."""

    is_sequential = False  # records can only be read from the beginning of their shard

    def __init__(self, shards: Sequence[Shard], counts: Sequence[int] | None = None) -> None:
        self.shards = tuple(shards)
        self.first: Ints = np.zeros(len(self.shards) + 1, np.int64)
        np.cumsum(counts or [len(shard.index) for shard in self.shards], out=self.first[1:])
        known = () if counts else zip(self.first, self.shards, strict=False)
        self._damaged = {
            int(start) + record: skipped for start, shard in known for record, skipped in shard.damage.items()
        }

    def __len__(self) -> int:
        return int(self.first[-1])

    def begin(self, *, shuffled_among: int | None) -> None:
        """Get ready; `shuffled_among` is how many records are mixed at a time, 0 if none are, None if all are."""

    def hold(self, records: int) -> None:
        """Get ready to go back and forth among this many records."""

    def decode(self, rows: Ints, wanted: Wanted) -> Decoded:
        """Decode features of the records, in the order given."""
        raise NotImplementedError

    def ahead(self, tasks: Iterator[T], rows_of: Callable[[T], Ints]) -> Iterator[T]:  # noqa: ARG002
        """The same tasks; shards that are fetched are asked in advance for what `rows_of` says a task needs."""
        return tasks

    def check(self) -> None:
        """Raise if a shard is not the one that the manifest says."""
        for shard in self.shards:
            if shard.problem is not None:
                help = [f"To keep every intact record of it: bushel repair {shard.path} OUT", _READ_ON]
                raise FileProblem(shard.path, shard.problem, help=help)

    def with_damage(self, rows: Ints, faults: RowFaults) -> RowFaults:
        """Add the rows that stand for damage, whatever they look like, to the faults."""
        if not self._damaged:
            return faults
        known = {row for row, _, _ in faults}
        found = [(i, 0, -1) for i, row in enumerate(rows.tolist()) if row in self._damaged and i not in known]
        return sorted([*faults, *found])

    def locate(self, row: int) -> tuple[Shard, int]:
        """The shard of a record, and its number in it."""
        at = int(np.searchsorted(self.first, row, side="right")) - 1
        return self.shards[at], row - int(self.first[at])

    def skipped(self, row: int, fault: int) -> Skipped:
        """A record at fault in full."""
        shard, record = self.locate(row)
        return shard.skipped(record, fault)

    def error(self, row: int, fault: int, feature: str | None) -> CorruptRecord:
        """The error for a record at fault."""
        place = self.skipped(row, fault)
        return CorruptRecord(place.path, record=place.record, offset=place.offset, fault=place.fault, feature=feature)

    def load_indexes(self, numbers: Iterable[int]) -> None:
        """Load the indexes of these shards, several at a time, if they are not loaded."""
        load_indexes(self.shards[number] for number in numbers)

    def values(self, name: str) -> NDArray[Any] | None:
        """What the indexes carry under a name, over all records; None if one of them does not."""
        self.load_indexes(range(len(self.shards)))
        if not all(name in shard.index.values for shard in self.shards):
            return None
        carried: NDArray[Any] = np.concatenate([shard.index.values[name] for shard in self.shards])
        return carried


class MappedShards(ShardSet):
    """Shards on disk, which the system maps into memory."""

    @cached_property
    def _core(self) -> _native.Shards:
        try:
            mapping = _native.Mapping([(str(shard.path), shard.size) for shard in self.shards])
        except OSError as error:
            raise describe_os_error(Path(error.filename), error) from None
        places = zip(self.shards, mapping.starts, strict=True)
        return _native.Shards(mapping, [(shard.index.offsets, shard.index.lengths, start) for shard, start in places])

    def begin(self, *, shuffled_among: int | None) -> None:  # noqa: ARG002
        """Map all shards: once, and not in each thread."""
        len(self._core)

    def decode(self, rows: Ints, wanted: Wanted) -> Decoded:
        """Decode features of the records, in the order given."""
        columns, faults, seconds = self._core.decode(rows, wanted)
        return Decoded(columns, self.with_damage(rows, faults), seconds)
