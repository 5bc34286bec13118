"""Records of many shards by one number: mapped, fetched block by block, or inflated window by window."""

from __future__ import annotations

import math
import threading
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.errors import BushelError, CorruptRecord, Fault, FileProblem, quantity, readable_size
from bushel.parallel import REQUESTS, in_background
from bushel.records.deflated import inflate_group
from bushel.records.files import FOOTER, HEADER, Chunk, Skipped, open_file
from bushel.records.index import Index, index_path, load_lengths, obtain_index, second_look
from bushel.records.manifest import ShardEntry, other_size, repair_help
from bushel.storage import cache, describe_os_error, kept_bytes, open_to_read, status_of
from bushel.storage.cache import Blocks, Ranges, Spot, the_cache

__all__ = [
    "Decoded",
    "FetchedShards",
    "GroupedShards",
    "InflatedShards",
    "MappedShards",
    "OpenShard",
    "RowFaults",
    "ShardSet",
    "StoreShuffle",
    "Wanted",
    "load_indexes",
]


Ints: TypeAlias = NDArray[np.int64]
Wanted: TypeAlias = list[tuple[str, bool, int]]  # name, is a feature list, kind
RowFaults: TypeAlias = list[tuple[int, int, int]]  # row, fault, column or -1
T = TypeVar("T")
_INDEXES_AT_ONCE = 16


@dataclass(frozen=True)
class Decoded:
    """Columns as the core returns them, the rows at fault, and the time it took to get the records into memory."""

    columns: list[dict[str, Any]]
    faults: RowFaults
    seconds_fetching: float


_STEP = 64  # records between two offsets that are kept


class Places:
    """Where the records of an object are, in four bytes per record: they follow each other."""

    def __init__(self, lengths: NDArray[np.uint32]) -> None:
        self.lengths = lengths
        sizes = np.add.reduceat(lengths, np.arange(0, len(lengths), _STEP), dtype=np.int64) if len(lengths) else lengths
        counts = np.full(len(sizes), _STEP, np.int64)
        self._firsts = np.cumsum(np.concatenate([[0], sizes + counts * (HEADER + FOOTER)]))

    def of(self, records: Ints) -> tuple[Ints, Ints]:
        """Offsets and lengths of records, with framing."""
        lengths = self.lengths[records].astype(np.int64) + HEADER + FOOTER
        first = records[0] if len(records) else 0
        if len(records) and np.array_equal(records, np.arange(first, first + len(records))):
            return int(self._offset(first)) + np.cumsum(lengths) - lengths, lengths
        return np.array([self._offset(record) for record in records.tolist()], np.int64), lengths

    def _offset(self, record: int) -> int:
        begin = record - record % _STEP
        before = int(self.lengths[begin:record].sum(dtype=np.int64)) + (record - begin) * (HEADER + FOOTER)
        return int(self._firsts[record // _STEP]) + before


class OpenShard:
    """One file; its records are located when they are first needed."""

    def __init__(self, path: Path, promised: ShardEntry | None = None, is_fetched: bool = False) -> None:
        self.path = path
        self.promised = promised  # what the manifest says about it
        self._is_fetched = is_fetched  # records are then numbered by the manifest, without an index
        self._indexed: tuple[Index, dict[int, Skipped]] | None = None
        self._places: Places | None = None
        self._loading = threading.RLock()  # of this shard: others load at the same time
        try:
            self.size = status_of(path).size
        except FileNotFoundError:
            raise FileProblem(path, "there is no such file") from None

    @property
    def is_indexed(self) -> bool:
        """Whether its index is loaded."""
        return self._indexed is not None

    @property
    def is_located(self) -> bool:
        """Whether it is known where its records are."""
        return self._places is not None

    @property
    def indexed(self) -> tuple[Index, dict[int, Skipped]]:
        """The index, and the places in it that are damage, not records."""
        if self._indexed is None:
            with self._loading:
                self._indexed = self._indexed or self._load()
        return self._indexed

    @indexed.setter
    def indexed(self, found: tuple[Index, dict[int, Skipped]]) -> None:
        self._indexed, self._places = found, None

    @property
    def places(self) -> Places:
        """Where its records are, if it is fetched: without the rest of its index, and shared by processes."""
        if self._places is None:
            with self._loading:
                if self._places is None:
                    lengths = self._load_lengths() if self.promised and not self._indexed else None
                    self._places = Places(np.array(self.index.lengths) if lengths is None else lengths)
        return self._places

    def _load_lengths(self) -> NDArray[np.uint32] | None:
        """The lengths of its records, from the cache of this machine or from the beginning of its index."""
        promise = self.promised
        assert promise is not None

        def load() -> bytes | None:
            lengths = load_lengths(self.path, promise.records, promise.sha256)
            return None if lengths is None else lengths.tobytes()

        kept = kept_bytes(self.path, "lengths", load)
        return None if kept is None or len(kept) != 4 * promise.records else np.frombuffer(kept, np.uint32)

    def _load(self) -> tuple[Index, dict[int, Skipped]]:
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
        """How this file differs from its manifest. Damage inside it is found when it is read."""
        promise = self.promised
        if promise is None:
            return None
        if self.size != promise.bytes:
            return other_size(self.size, promise)
        if self._is_fetched or self.damage:
            return None
        if len(self.index) != promise.records:
            return _other_count(len(self.index), promise)
        if promise.sha256 and self.index.sha256 not in ("", promise.sha256):
            return (
                f"is another file than the manifest says: SHA-256 {self.index.sha256[:12]}…, not {promise.sha256[:12]}…"
            )
        return None

    @property
    def missing(self) -> int:
        """How many records are missing according to the manifest; damaged ones are not missing."""
        return max(0, self.promised.records - len(self.index)) if self.promised else 0

    def skipped(self, record: int, fault: int) -> Skipped:
        """A record at fault, with its place."""
        if record in self.damage:
            return self.damage[record]
        offset, length = int(self.index.offsets[record]), int(self.index.lengths[record])
        return Skipped(str(self.path), record, offset, HEADER + length + FOOTER, Fault(fault))


def wrong_index(shard: OpenShard) -> FileProblem:
    """The error for an index that is wrong about its file, and cannot be replaced while the file is being read."""
    help = [f"Index the file again: bushel index {shard.path}"]
    return FileProblem(index_path(shard.path), "the index says other records than its file has", help=help)


def _other_count(records: int, promised: ShardEntry) -> str:
    return f"has {quantity(records, 'record')}, and the manifest says {promised.records:,}"


def load_indexes(shards: Iterable[OpenShard]) -> None:
    """Load the indexes of shards, several at a time, if they are not loaded."""
    missing = [shard for shard in shards if not shard.is_indexed]
    if len(missing) == 1:
        len(missing[0].index)
    elif missing:
        with ThreadPoolExecutor(_INDEXES_AT_ONCE) as pool:
            list(pool.map(lambda shard: len(shard.index), missing))


_READ_ON = 'To read what is there, and have the rest reported: bushel.batches(..., on_fault="skip")'


class ShardSet:
    """Shards whose records are numbered consecutively. Subclasses decode them."""

    is_sequential = False  # records can only be read from the beginning of their shard
    together = 1  # how many consecutive records a shuffle should take together, so that it is not many times slower

    def __init__(self, shards: Sequence[OpenShard], counts: Sequence[int] | None = None) -> None:
        self.shards = tuple(shards)
        self.first: Ints = np.zeros(len(self.shards) + 1, np.int64)
        np.cumsum(counts or [len(shard.index) for shard in self.shards], out=self.first[1:])
        known = () if counts else zip(self.first, self.shards, strict=False)
        self._damaged = {
            int(start) + record: skipped for start, shard in known for record, skipped in shard.damage.items()
        }
        self._looking = threading.Lock()
        self._looked_at: set[int] = set()  # shards in which there was a fault
        self._looks = 0  # how often this changed an index

    def __len__(self) -> int:
        return int(self.first[-1])

    def begin(self, *, shuffled_among: int | None, is_once: bool = False) -> None:
        """Prepare; `shuffled_among` is how many records are mixed at a time: 0 for none, None for all.

        `is_once` says that all records are read here, and none of them again.
        """

    def hold(self, records: int) -> None:
        """Prepare to go back and forth among this many records."""

    def decode(self, rows: Ints, wanted: Wanted) -> Decoded:
        """Decode features of the records, in the order given."""
        while True:
            looks = self._looks
            decoded = self._decode(rows, wanted)
            if not self._misled(rows, decoded.faults, looks):
                return Decoded(decoded.columns, self.with_damage(rows, decoded.faults), decoded.seconds_fetching)

    def _decode(self, rows: Ints, wanted: Wanted) -> Decoded:
        """Decode the records where the indexes say that they are."""
        raise NotImplementedError

    def _misled(self, rows: Ints, faults: RowFaults, looks: int) -> bool:
        """Whether records only seem damaged because of an index, which has been replaced since."""
        bad = rows[[row for row, fault, _ in faults if fault not in (Fault.MALFORMED, Fault.WRONG_KIND)]]
        if not len(bad):
            return False
        with self._looking:
            for number in np.unique(np.searchsorted(self.first, bad, side="right") - 1).tolist():
                self._look_again(number)
            return self._looks != looks

    def _look_again(self, number: int) -> None:
        """Find the records of a shard without its index, once."""
        shard = self.shards[number]
        if number in self._looked_at:
            return
        self._looked_at.add(number)
        if (found := second_look(shard.path, shard.index)) is None:
            return
        if len(found[0]) != len(shard.index):
            raise wrong_index(shard)
        self._reindex(number, found)

    def _reindex(self, number: int, found: tuple[Index, dict[int, Skipped]]) -> None:
        shard = self.shards[number]
        shard.indexed = found
        self._damaged |= {int(self.first[number]) + record: skipped for record, skipped in shard.damage.items()}
        self._looks += 1

    def ahead(self, tasks: Iterator[T], rows_of: Callable[[T], Ints]) -> Iterator[T]:  # noqa: ARG002
        """The same tasks; shards in a store prefetch the rows that `rows_of` returns for a task."""
        return tasks

    def record_bytes(self) -> float:
        """About how large a record is; infinite if there is none."""
        lengths = self.shards[0].index.lengths[:64] if len(self) else ()
        return float(np.mean(lengths)) if len(lengths) else math.inf

    def check(self) -> None:
        """Raise if a shard is not the one in the manifest."""
        for shard in self.shards:
            if shard.problem is not None:
                help = [repair_help(shard.path), _READ_ON]
                raise FileProblem(shard.path, shard.problem, help=help)

    def with_damage(self, rows: Ints, faults: RowFaults) -> RowFaults:
        """Add the rows that are damage, whatever they look like, to the faults."""
        if not self._damaged:
            return faults
        known = {row for row, _, _ in faults}
        found = [(i, 0, -1) for i, row in enumerate(rows.tolist()) if row in self._damaged and i not in known]
        return sorted([*faults, *found])

    def locate(self, row: int) -> tuple[OpenShard, int]:
        """The shard of a record, and its number in it."""
        at = int(np.searchsorted(self.first, row, side="right")) - 1
        return self.shards[at], row - int(self.first[at])

    def place(self, row: int) -> str:
        """Where a record is, as text for people."""
        shard, record = self.locate(row)
        return f"record {record} of {shard.path}"

    def why(self, row: int) -> str | None:  # noqa: ARG002
        """Why a record at fault cannot be used, if that is more than its fault says."""
        return None

    def skipped(self, row: int, fault: int) -> Skipped:
        """A record at fault, with its place."""
        shard, record = self.locate(row)
        return shard.skipped(record, fault)

    def error(self, row: int, fault: int, feature: str | None) -> BushelError:
        """The error for a record at fault."""
        place = self.skipped(row, fault)
        return CorruptRecord(place.path, record=place.record, offset=place.offset, fault=place.fault, feature=feature)

    def framed(self, row: int) -> bytes:
        """The bytes of one record with its framing, damaged or not; fewer where they are missing."""
        shard, record = self.locate(row)
        with open_to_read(shard.path) as file:
            file.seek(int(shard.index.offsets[record]))
            return bytes(file.read(HEADER + int(shard.index.lengths[record]) + FOOTER))

    def load_indexes(self, numbers: Iterable[int]) -> None:
        """Load the indexes of these shards, several at a time, if they are not loaded."""
        load_indexes(self.shards[number] for number in numbers)

    def values(self, name: str) -> NDArray[Any] | None:
        """A column of the indexes, over all records; None if one index lacks it, or may be of another object."""
        self.load_indexes(range(len(self.shards)))
        if not all(name in shard.index.values and shard.index.is_certain for shard in self.shards):
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

    def begin(self, *, shuffled_among: int | None, is_once: bool = False) -> None:  # noqa: ARG002
        """Map all shards: once, and not in each thread."""
        len(self._core)

    def _decode(self, rows: Ints, wanted: Wanted) -> Decoded:
        return Decoded(*self._core.decode(rows, wanted))

    def _look_again(self, number: int) -> None:
        looks = self._looks
        super()._look_again(number)
        if self._looks != looks:
            self.__dict__.pop("_core", None)  # it still has the old places


_NEXT_INDEXES = 6  # of the shards after the one that is read in order
# Blocks to have under way: half as many requests again, as those that come out of order must not stop the others.
_BLOCKS_AHEAD = (REQUESTS + REQUESTS // 2) * cache.MOST_AT_ONCE
_RECORDS_AHEAD = 3 * REQUESTS  # requests for single records, which take little memory
_TASKS_AHEAD, _SHUFFLED_AHEAD = 256, 8  # tasks to look at: in order, many may need the same blocks
_AT_ONCE = 4  # tasks that are made before the first is waited for


@dataclass(frozen=True)
class _Located:
    """Records in a store: the shard of each, its offset there, and its length with framing."""

    owners: Ints
    offsets: Ints
    lengths: Ints

    @cached_property
    def in_blocks(self) -> tuple[list[Spot], Ints, Ints, Ints]:
        """The blocks that hold them, and the pieces of these records: block, offset, length."""
        return _blocks_of(self.owners, self.offsets, self.lengths)

    @property
    def spots(self) -> list[Spot]:
        """Where each begins."""
        return list(zip(self.owners.tolist(), self.offsets.tolist(), strict=True))

    def some(self, rows: Ints) -> _Located:
        """A few of them."""
        return _Located(self.owners[rows], self.offsets[rows], self.lengths[rows])


class StoreShuffle(UserWarning):
    """A shuffle asks an object store for records one by one, as the cache cannot hold them all."""


class FetchedShards(ShardSet):
    """Shards in a store whose records are numbered consecutively."""

    def __init__(self, shards: Sequence[OpenShard], counts: Sequence[int] | None = None) -> None:
        super().__init__(shards, counts)
        self._blocks = Blocks([shard.path for shard in shards])
        self._ranges: Ranges | None = None  # in place of blocks, if these would be fetched many times
        self._is_in_order = self._is_once = False
        self._most_tasks = _SHUFFLED_AHEAD
        self._locating = threading.Lock()
        self._expected: set[int] = set()  # shards whose indexes are loaded, or on their way
        self._asked_for: dict[bytes, _Located] = {}  # the records of tasks that are prefetched, by their numbers
        self._doubted: set[Spot] = set()  # blocks or records that were already read a second time

    def begin(self, *, shuffled_among: int | None, is_once: bool = False) -> None:
        """Fetch records one by one if a shuffle over all of them would fetch the same blocks many times, and warn."""
        size, limit = sum(shard.size for shard in self.shards), the_cache().limit
        is_global = shuffled_among is None
        self._blocks.begin(keeps=shuffled_among != 0 or not is_once, all_fit=is_global and size <= limit)
        self._ranges = None
        self._asked_for.clear()
        self._is_in_order, self._is_once = shuffled_among == 0, is_once
        self._most_tasks = _TASKS_AHEAD if self._is_in_order else _SHUFFLED_AHEAD
        if shuffled_among:
            self.hold(shuffled_among)
        if is_global and size > limit:
            self._ranges = Ranges([shard.path for shard in self.shards])
            warnings.warn(
                f"{self.shards[0].path.parent}: {readable_size(size)} are shuffled record by record, more than the "
                f"cache of {readable_size(limit)} holds, so each record is a request: set BUSHEL_CACHE_SIZE to hold "
                "all of it, or shuffle in blocks with Order(shuffle=True, block=..., window=...)",
                StoreShuffle,
                stacklevel=6,
            )

    def record_bytes(self) -> float:
        """About how large a record is, without an index; infinite if there is none."""
        return sum(shard.size for shard in self.shards) / len(self) if len(self) else math.inf

    def hold(self, records: int) -> None:
        """Keep twice the blocks of this many records: a shuffle in blocks goes back and forth among them."""
        size = sum(shard.size for shard in self.shards) / max(1, len(self))
        self._blocks.most = max(self._blocks.most, int(2 * records * size / cache.BLOCK_BYTES))

    def _decode(self, rows: Ints, wanted: Wanted) -> Decoded:
        begin = perf_counter()
        records = self._asked_for.pop(rows.tobytes(), None) or self._located(rows)
        pieces = self._pieces(records)
        seconds = perf_counter() - begin
        columns, faults = _native.decode_ranges(*pieces, records.lengths, wanted)
        if faults and self._read_again(records, faults):
            columns, faults = _native.decode_ranges(*self._pieces(records), records.lengths, wanted)
        return Decoded(columns, faults, seconds)

    def framed(self, row: int) -> bytes:
        """The bytes of one record with its framing, fetched."""
        memory: Any = _native.gather(*self._pieces(self._located(np.array([row], np.int64))))
        return bytes(memory)

    def ahead(self, tasks: Iterator[T], rows_of: Callable[[T], Ints]) -> Iterator[T]:
        """The same tasks; the blocks of the next ones are fetched in the meantime."""
        coming: deque[tuple[T, int]] = deque()
        kept: deque[bytes] = deque()
        under_way = asked = 0
        most_under_way = _BLOCKS_AHEAD if self._ranges is None else _RECORDS_AHEAD
        for number, task in enumerate(tasks):
            if 0 < number < _AT_ONCE and not self._is_in_order:
                yield task  # it may be in as many other shards, which the first one must not wait for
                continue
            rows = rows_of(task)
            records = self._located(rows)
            kept.append(rows.tobytes())
            self._asked_for[kept[-1]] = records
            if len(kept) > 2 * _TASKS_AHEAD:  # it was decoded long ago
                self._asked_for.pop(kept.popleft(), None)
            asked_now = self._ask_for(records, asked)
            coming.append((task, asked_now))
            under_way += asked_now
            asked += asked_now
            most = self._most_tasks if number else 0
            while len(coming) > most or (under_way > most_under_way and len(coming) > 1):
                first, done = coming.popleft()
                under_way -= done
                yield first
        yield from (task for task, _ in coming)

    def _ask_for(self, records: _Located, asked: int) -> int:
        """Begin to fetch records, after so many blocks; how many blocks that takes, or requests for single records."""
        if self._ranges is not None:
            return self._ranges.ask_for(records.spots, records.lengths.tolist())
        blocks = records.in_blocks[0]
        # Of all records, nearly every block is needed: large requests are done sooner.
        at_once = self._at_once(*blocks[-1], asked) if self._is_in_order and blocks else cache.MOST_AT_ONCE
        return at_once * self._blocks.ask_for(blocks, at_once=at_once)

    def _at_once(self, shard: int, block: int, asked: int) -> int:
        """How many blocks to fetch with a request: fewer at first and near the end.

        The first batch comes sooner, requests do not all end at the same time, and the last ones do.
        """
        left = int(self._bytes_from[shard]) // cache.BLOCK_BYTES - block if self._is_once else math.inf
        return int(max(1, min(1 + asked // _AT_ONCE, left // REQUESTS, cache.MOST_AT_ONCE)))

    @cached_property
    def _bytes_from(self) -> Ints:
        """How many bytes there are from the beginning of each shard to the end of the last."""
        sizes = np.array([shard.size for shard in self.shards], np.int64)
        return np.cumsum(sizes[::-1])[::-1]

    def _located(self, rows: Ints) -> _Located:
        """Where records are; waits for the indexes of their shards."""
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(self):
            raise IndexError(f"records must be below {len(self)}, got {int(rows.min())} to {int(rows.max())}")
        owners: Ints = np.searchsorted(self.first, rows, side="right") - 1
        numbers = np.unique(owners).tolist()
        self._locate(numbers)
        if numbers and self._is_in_order:
            self._expect(range(numbers[-1] + 1, numbers[-1] + 1 + _NEXT_INDEXES))
        offsets, lengths = np.empty_like(owners), np.empty_like(owners)
        for number in numbers:
            here = np.flatnonzero(owners == number)
            offsets[here], lengths[here] = self.shards[number].places.of(rows[here] - self.first[number])
        return _Located(owners, offsets, lengths)

    def _locate(self, numbers: Sequence[int]) -> None:
        """Find out where the records of shards are, several at a time, for one batch after the other."""
        with self._locating:
            missing = [self.shards[number] for number in numbers if not self.shards[number].is_located]
            if len(missing) == 1:
                _places_of(missing[0])
            elif missing:
                with ThreadPoolExecutor(_INDEXES_AT_ONCE) as pool:
                    list(pool.map(_places_of, missing))

    def _expect(self, numbers: Iterable[int]) -> None:
        """Locate the records of shards that probably come next, without waiting for them."""
        for number in numbers:
            if number < len(self.shards) and number not in self._expected:
                self._expected.add(number)
                in_background(_places_of, self.shards[number])

    def _pieces(self, records: _Located) -> tuple[list[Any], Ints, Ints, Ints]:
        """Memory that holds the framed records, and where they are in it: piece, offset and length of each range."""
        if self._ranges is not None:
            pieces = self._ranges.get(records.spots, records.lengths.tolist())
            return pieces, np.arange(len(pieces)), np.zeros_like(records.lengths), records.lengths
        blocks, which, starts, sizes = records.in_blocks
        return self._blocks.get(blocks), which, starts, sizes

    def _look_again(self, number: int) -> None:
        """Find the records of a shard by all of its index, if the beginning of that index was of another object."""
        shard = self.shards[number]
        if number in self._looked_at or np.array_equal(shard.places.lengths, shard.index.lengths):
            super()._look_again(number)
            return
        self._looked_at.add(number)
        self._reindex(number, shard.indexed)  # its places are found again when they are next needed

    def _reindex(self, number: int, found: tuple[Index, dict[int, Skipped]]) -> None:
        super()._reindex(number, found)
        self._asked_for.clear()  # where they were thought to be

    def _read_again(self, records: _Located, faults: RowFaults) -> bool:
        """Fetch the blocks of records at fault again, unless that was done before."""
        bad = records.some(np.array([row for row, fault, _ in faults if fault < Fault.WRONG_KIND], np.int64))
        doubted = set(bad.spots if self._ranges is not None else bad.in_blocks[0]) - self._doubted
        if self._ranges is None:
            self._blocks.forget(doubted)
        self._doubted |= doubted
        return bool(doubted)


def _places_of(shard: OpenShard) -> Places:
    return shard.places


def _blocks_of(owners: Ints, offsets: Ints, lengths: Ints) -> tuple[list[Spot], Ints, Ints, Ints]:
    """The blocks that hold records, and the pieces of these records: block, offset, length."""
    size = cache.BLOCK_BYTES
    first, last = offsets // size, (offsets + lengths - 1) // size
    counts = last - first + 1
    record = np.repeat(np.arange(len(owners)), counts)
    block = first[record] + np.arange(len(record)) - np.repeat(np.cumsum(counts) - counts, counts)
    begin = np.maximum(offsets[record], block * size)
    end = np.minimum((offsets + lengths)[record], (block + 1) * size)
    pairs, which = np.unique(np.stack([owners[record], block], axis=1), axis=0, return_inverse=True)
    blocks = [(shard, number) for shard, number in pairs.tolist()]
    return blocks, which.reshape(-1).astype(np.int64), begin - block * size, end - begin


_FRAMING = HEADER + FOOTER
_CHUNK_BYTES = 4 << 20
_HELD_BYTES = 64 << 20  # inflated and kept, in addition to the chunk in use
_HELD_SHUFFLED = 256 << 20  # inflated and kept, where records are read at random
_FEW = 4  # records of a group: inflating all of them for one is not much slower than reading in order
_GROUPS_TOGETHER = 4
_JOINED = 2  # times the bytes of records that are wanted: small records of fewer are decoded sooner in one piece
_NO_RECORD = bytes(_FRAMING)  # in place of one that is lost: its checksums are wrong


class GroupedShards(ShardSet):
    """Shards on disk of which some are compressed, in groups of records that are inflated one by one, when needed."""

    def __init__(self, shards: Sequence[OpenShard], counts: Sequence[int] | None = None) -> None:
        super().__init__(shards, counts)
        self._held: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._size, self._most = 0, _HELD_BYTES
        self._lock = threading.Lock()

    @cached_property
    def _mapping(self) -> tuple[Any, list[int]]:
        """All files in one piece of memory, and where each begins."""
        try:
            mapping = _native.Mapping([(str(shard.path), shard.size) for shard in self.shards])
        except OSError as error:
            raise describe_os_error(Path(error.filename), error) from None
        return mapping.memory, list(mapping.starts)

    def begin(self, *, shuffled_among: int | None, is_once: bool = False) -> None:  # noqa: ARG002
        """Map all shards, and keep more of them inflated if they are shuffled."""
        self._mapping  # noqa: B018
        self._most = _HELD_BYTES if shuffled_among == 0 else _HELD_SHUFFLED

    @cached_property
    def together(self) -> int:  # type: ignore[override]
        """A few groups, if many records are inflated for one and not all of them can be kept."""
        compressed = [shard.index for shard in self.shards if shard.index.starts is not None]
        groups = sum(len(index.starts) for index in compressed if index.starts is not None)
        per_group = sum(map(len, compressed)) / max(1, groups)
        is_held = sum(_end_of_index(index) for index in compressed) <= _HELD_SHUFFLED
        return 1 if is_held or per_group <= _FEW else int(_GROUPS_TOGETHER * per_group)

    def _decode(self, rows: Ints, wanted: Wanted) -> Decoded:
        begin = perf_counter()
        pieces, places, lost = self._find(rows)
        seconds = perf_counter() - begin
        which, starts, lengths = places
        is_dense = which.all() and len(rows) > _FEW * len(pieces)  # many records of each group
        if is_dense and sum(map(len, pieces[1:])) < _JOINED * lengths.sum():
            ends = np.cumsum([0, 0, *map(len, pieces[1:-1])])
            extents = np.stack([ends[which] + starts, lengths - _FRAMING], axis=1).astype(np.uint64)
            columns, faults, _ = _native.decode(b"".join(pieces[1:]), extents, wanted)
        else:
            columns, faults = _native.decode_ranges(pieces, *places, lengths, wanted)
        faults = [(row, int(Fault.COMPRESSED_STREAM) if row in lost else fault, at) for row, fault, at in faults]
        return Decoded(columns, faults, seconds)

    def framed(self, row: int) -> bytes:
        """The bytes of one record with its framing, inflated."""
        pieces, places, _ = self._find(np.array([row], np.int64))
        memory: Any = _native.gather(pieces, *places)
        return bytes(memory)

    def _find(self, rows: Ints) -> tuple[list[Any], tuple[Ints, Ints, Ints], set[int]]:
        """Memory that holds framed records; piece, offset and length of each; and the rows that are lost."""
        memory, file_starts = self._mapping
        owners: Ints = np.searchsorted(self.first, rows, side="right") - 1
        pieces: list[Any] = [memory]
        which, starts, lengths = np.zeros_like(rows), np.empty_like(rows), np.empty_like(rows)
        for number in np.unique(owners).tolist():
            here = np.flatnonzero(owners == number)
            index, records = self.shards[number].index, rows[here] - self.first[number]
            starts[here] = index.offsets[records].astype(np.int64)
            lengths[here] = index.lengths[records].astype(np.int64) + _FRAMING
            if index.starts is None:
                starts[here] += file_starts[number]
                continue
            groups = np.searchsorted(index.starts[:, 0], index.offsets[records], side="right") - 1
            starts[here] -= index.starts[groups, 0].astype(np.int64)
            needed, at = np.unique(groups, return_inverse=True)
            which[here] = at.reshape(-1) + len(pieces)
            pieces += self._inflated(number, needed.tolist())
        sizes = np.array([len(piece) for piece in pieces], np.int64)
        lost = np.flatnonzero(starts + lengths > sizes[which])
        which[lost], starts[lost], lengths[lost] = len(pieces), 0, _FRAMING
        return [*pieces, _NO_RECORD], (which, starts, lengths), set(lost.tolist())

    def _inflated(self, number: int, groups: list[int]) -> list[bytes]:
        """The inflated bytes of groups of one shard."""
        with self._lock:
            found = [self._held.get((number, group)) for group in groups]
        made = {group: self._inflate(number, group) for group, data in zip(groups, found, strict=True) if data is None}
        with self._lock:
            for group, data in made.items():
                self._keep(number, group, data)
        return [made[group] if data is None else data for group, data in zip(groups, found, strict=True)]

    def _inflate(self, number: int, group: int) -> bytes:
        memory, file_starts = self._mapping
        index, first = self.shards[number].index, file_starts[number]
        assert index.starts is not None
        is_last = group + 1 == len(index.starts)
        inflated_end, end = (
            (_end_of_index(index), self.shards[number].size) if is_last else index.starts[group + 1].tolist()
        )
        inflated, begin = index.starts[group].tolist()
        return inflate_group(memory[first + begin : first + end], inflated_end - inflated)

    def _keep(self, number: int, group: int, data: bytes) -> None:
        if (number, group) in self._held:  # by another thread
            return
        self._held[number, group] = data
        self._size += len(data)
        while self._size > self._most and len(self._held) > 1:
            _, old = self._held.popitem(last=False)
            self._size -= len(old)

    def _look_again(self, number: int) -> None:
        """Damage in a group moves no other: only plain shards are looked through without their index."""
        if self.shards[number].index.starts is None:
            super()._look_again(number)


@dataclass
class _Reading:
    """One pass over a shard, which continues where it stopped."""

    chunks: Iterator[Chunk]
    faults: list[Skipped]  # that it skipped
    done: int = 0  # inflated bytes read so far


class InflatedShards(ShardSet):
    """Records of compressed shards by number. Cheap if the numbers are close together and ascend.

    Safe to use from several threads, one of which reads at a time.
    """

    is_sequential = True

    def __init__(self, shards: Sequence[OpenShard], counts: Sequence[int] | None = None) -> None:
        super().__init__(shards, counts)
        self._held_bytes = _HELD_BYTES
        self._held: OrderedDict[tuple[int, int], Chunk] = OrderedDict()
        self._size = 0
        self._readings: dict[int, _Reading] = {}
        self._lock = threading.Lock()

    def hold(self, records: int) -> None:
        """Keep this many records inflated: a shuffle needs its whole buffer at once."""
        mean = sum(int(shard.index.lengths.sum()) for shard in self.shards) / len(self) + _FRAMING
        self._held_bytes = max(self._held_bytes, int(records * mean))

    def _decode(self, rows: Ints, wanted: Wanted) -> Decoded:
        memory, extents, lost = self._gather(rows)
        columns, faults, _ = _native.decode(memory, extents, wanted)
        if lost:
            faults = [fault for fault in faults if fault[0] not in lost]
            faults = sorted([*faults, *((place, int(fault), -1) for place, fault in lost.items())])
        return Decoded(columns, faults, 0.0)

    def framed(self, row: int) -> bytes:
        """The bytes of one record with its framing, inflated; none if the stream is damaged there."""
        memory, extents, _ = self._gather(np.array([row], np.int64))
        begin, length = (int(value) for value in extents[0])
        return bytes(memoryview(memory)[begin : begin + length + _FRAMING])

    def _gather(self, rows: Ints) -> tuple[Any, Any, dict[int, Fault]]:
        """Memory that holds the framed records, where each is, and which are not there, and why."""
        places = np.argsort(rows, kind="stable")
        ordered = rows[places]
        pieces: list[Any] = [b""] * len(rows)
        lost: dict[int, Fault] = {}
        at = 0
        while at < len(rows):
            number = int(np.searchsorted(self.first, ordered[at], side="right")) - 1
            base, index = int(self.first[number]), self.shards[number].index
            if int(ordered[at]) - base in self.shards[number].damage:
                at += 1  # there is no such record: report a fault in its place
                continue
            offset = int(index.offsets[ordered[at] - base])
            with self._lock:
                chunk, fault = self._chunk_at(number, offset)
            if chunk is None:
                lost[int(places[at])] = fault
                at += 1
                continue
            # Find records by offset, not by number: after damage, several records may seem to have one number.
            starts = chunk.extents[:, 0] + np.uint64(chunk.base)
            end = int(np.searchsorted(ordered, base + np.searchsorted(index.offsets, starts[-1], side="right")))
            end = max(end, at + 1)  # after damage, the index may have a record inside the last one of the chunk
            records = ordered[at:end] - base
            found = np.minimum(np.searchsorted(starts, index.offsets[records]), len(starts) - 1)
            is_there = (starts[found] == index.offsets[records]) & (chunk.extents[found, 1] == index.lengths[records])
            if end - at == len(rows) and is_there.all():
                back = np.empty_like(places)
                back[places] = np.arange(len(places))
                return chunk.memory, chunk.extents[found[back]], lost
            self._cut_out(chunk, found[is_there], places[at:end][is_there], pieces)
            lost |= dict.fromkeys(places[at:end][~is_there].tolist(), Fault.LENGTH_CRC)
            at = end
        return *_joined(pieces), lost

    def _cut_out(self, chunk: Chunk, found: Ints, places: Ints, pieces: list[Any]) -> None:
        view = memoryview(chunk.memory)
        starts, lengths = chunk.extents[found].T.tolist()
        for place, start, length in zip(places.tolist(), starts, lengths, strict=True):
            pieces[place] = view[start : start + length + _FRAMING]

    def _chunk_at(self, number: int, offset: int) -> tuple[Chunk | None, Fault]:
        """The chunk that holds the record at an offset; if there is none, None and the fault in its place."""
        for (owner, start), chunk in reversed(self._held.items()):
            if owner == number and start <= offset < _end_of(chunk):
                return chunk, Fault.NONE
        reading = self._readings.get(number)
        if reading is None or offset < reading.done:
            reading = self._restart(number)
        while offset >= reading.done and (chunk := next(reading.chunks, None)) is not None:  # type: ignore[assignment]
            reading.done = _end_of(chunk)
            if not reading.faults and reading.done > _end_of_index(self.shards[number].index):
                raise wrong_index(self.shards[number])
            self._keep(number, chunk)
            if chunk.offset(0) <= offset < reading.done:
                return chunk, Fault.NONE
        if not reading.faults:
            raise wrong_index(self.shards[number])
        before = [skipped.fault for skipped in reading.faults if skipped.offset <= offset]
        return None, before[-1] if before else reading.faults[0].fault

    def _restart(self, number: int) -> _Reading:
        while len(self._readings) > 2:
            self._readings.pop(next(iter(self._readings)))
        file, faults = open_file(self.shards[number].path), list[Skipped]()
        reading = _Reading(file.chunks(on_fault=faults.append, max_bytes=_CHUNK_BYTES), faults)
        self._readings[number] = reading
        return reading

    def _keep(self, number: int, chunk: Chunk) -> None:
        self._held[number, chunk.offset(0)] = chunk
        self._size += _bytes_of(chunk)
        while self._size > self._held_bytes and len(self._held) > 1:
            _, old = self._held.popitem(last=False)
            self._size -= _bytes_of(old)


def _joined(pieces: list[Any]) -> tuple[bytes, Any]:
    sizes = np.array([len(piece) for piece in pieces], np.uint64)
    extents = np.zeros((len(pieces), 2), np.uint64)
    np.cumsum(sizes[:-1], out=extents[1:, 0])
    extents[:, 1] = np.maximum(sizes, _FRAMING) - np.uint64(_FRAMING)
    return b"".join(pieces), extents


def _end_of(chunk: Chunk) -> int:
    """Where a chunk ends, in the inflated bytes of its file."""
    return chunk.offset(-1) + int(chunk.extents[-1, 1]) + _FRAMING


def _end_of_index(index: Index) -> int:
    return int(index.offsets[-1]) + int(index.lengths[-1]) + _FRAMING if len(index) else 0


def _bytes_of(chunk: Chunk) -> int:
    return int(chunk.extents[:, 1].sum()) + _FRAMING * len(chunk.extents)
