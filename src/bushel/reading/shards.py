"""Records of many shards by one number, decoded from where they lie."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.errors import CorruptRecord, Fault, FileProblem
from bushel.records.files import FOOTER, HEADER, Skipped
from bushel.records.index import Index, obtain_index
from bushel.storage import describe_os_error, is_object

__all__ = ["Decoded", "Shard", "ShardSet", "Wanted", "open_shards"]

Ints: TypeAlias = NDArray[np.int64]
Wanted: TypeAlias = list[tuple[str, bool, int]]  # name, is a feature list, kind
RowFaults: TypeAlias = list[tuple[int, int, int]]  # row, fault, column or -1


@dataclass(frozen=True)
class Decoded:
    """Columns as the core gives them, the rows at fault, and how long the records took to be in memory."""

    columns: list[dict[str, Any]]
    faults: RowFaults
    seconds_fetching: float


@dataclass(frozen=True)
class Shard:
    """One file and where its records are."""

    path: Path
    size: int
    index: Index
    damage: dict[int, Skipped]

    def skipped(self, record: int, fault: int) -> Skipped:
        """A record at fault in full."""
        if record in self.damage:
            return self.damage[record]
        offset, length = int(self.index.offsets[record]), int(self.index.lengths[record])
        return Skipped(str(self.path), record, offset, HEADER + length + FOOTER, Fault(fault))


class ShardSet:
    """Shards whose records are numbered through, the first shard's first."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = tuple(shards)
        self.first: Ints = np.zeros(len(self.shards) + 1, np.int64)
        np.cumsum([len(shard.index) for shard in self.shards], out=self.first[1:])
        self._damaged = {
            int(start) + record: shard.damage[record]
            for start, shard in zip(self.first, self.shards, strict=False)
            for record in shard.damage
        }

    def __len__(self) -> int:
        return int(self.first[-1])

    @property
    def is_compressed(self) -> bool:
        """Whether any shard must be inflated, so that none can be read at random."""
        return any(shard.index.compression is not None for shard in self.shards)

    @cached_property
    def _core(self) -> _native.Shards:
        places = zip(self.shards, self._mapping.starts, strict=True)
        indexes = [(shard.index.offsets, shard.index.lengths, start) for shard, start in places]
        return _native.Shards(self._mapping, indexes)

    @cached_property
    def _mapping(self) -> _native.Mapping:
        try:
            return _native.Mapping([(str(shard.path), shard.size) for shard in self.shards])
        except OSError as error:
            raise describe_os_error(Path(error.filename), error) from None

    def map(self) -> None:
        """Map all shards now rather than when the first record is asked for."""
        len(self._core)

    def hold(self, records: int) -> None:
        """Be ready to go to and fro among so many records; what is mapped is."""

    def warn_of_refetching(self) -> None:
        """Say it if reading at random costs more than once; it does not where files are mapped."""

    def decode(self, rows: Ints, wanted: Wanted) -> Decoded:
        """Decode features of the records, in the order given."""
        columns, faults, seconds = self._core.decode(rows, wanted)
        return Decoded(columns, self.with_damage(rows, faults), seconds)

    def with_damage(self, rows: Ints, faults: RowFaults) -> RowFaults:
        """Add to faults the rows that stand for damage, whatever they look like."""
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

    def values(self, name: str) -> NDArray[Any] | None:
        """What the indexes carry under a name, over all records; None if one of them does not."""
        if not all(name in shard.index.values for shard in self.shards):
            return None
        carried: NDArray[Any] = np.concatenate([shard.index.values[name] for shard in self.shards])
        return carried


def open_shards(paths: Sequence[Path], counts: Sequence[int] | None = None) -> ShardSet:
    """Find the records of files: by their indexes where those are fresh. `counts` is how many each has, if known."""
    if any(is_object(path) for path in paths):
        from bushel.reading.objects import ObjectShards

        return ObjectShards(paths, counts)
    return ShardSet([_open_shard(path) for path in paths])


def _open_shard(path: Path) -> Shard:
    try:
        index, damage = obtain_index(path)
        return Shard(path, os.stat(path).st_size, index, damage)  # noqa: PTH116 (a thousand of these count)
    except FileNotFoundError:
        raise FileProblem(path, "there is no such file") from None
