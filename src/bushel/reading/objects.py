"""Shards in an object store: the blocks that hold the records asked for are fetched, kept on disk, and decoded.

A block is a fixed range of a shard. Blocks that lie side by side come with one request, several requests at a time;
each is fetched once for all processes of a machine, for as long as the cache has room for it.
"""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from itertools import groupby, takewhile
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias, TypeVar

import numpy as np

from bushel import _native
from bushel.errors import Fault, FileProblem, readable_size
from bushel.reading.shards import Decoded, Ints, RowFaults, Shard, ShardSet, Wanted
from bushel.records.files import FOOTER, HEADER, Skipped
from bushel.records.index import Index, obtain_index
from bushel.storage import ObjectPath
from bushel.storage.cache import name_of, the_cache
from bushel.storage.stores import get
from bushel.storage.streams import in_background

__all__ = ["ObjectShards", "StoreShuffle"]

BLOCK_BYTES = 4 << 20
_AT_ONCE = 8  # blocks of one request
_INDEXES_AT_ONCE = 16
_AHEAD = 24  # blocks on their way before they are asked for
_HELD_MAPPED, _HELD_IN_MEMORY = 256, 32  # blocks at hand, where there is a cache on disk and where there is none

Block: TypeAlias = tuple[int, int]  # number of the shard, and of the block in it
T = TypeVar("T")


class StoreShuffle(UserWarning):
    """A shuffle that fetches the blocks of an object store many times over."""


class ObjectShard(Shard):
    """One shard, whose index is fetched when it is first needed."""

    def __init__(self, path: ObjectPath, count: int | None) -> None:
        try:
            size = path.status().size
        except FileNotFoundError:
            raise FileProblem(path, "there is no such object") from None
        self.__dict__.update(path=path, size=size, count=count)  # frozen, as all shards are

    @cached_property
    def _obtained(self) -> tuple[Index, dict[int, Skipped]]:
        index, damage = obtain_index(self.path)
        count = self.__dict__["count"]
        if count is not None and len(index) != count:
            raise FileProblem(self.path, f"has {len(index):,} records, and the manifest says {count:,}")
        return index, damage

    @property
    def index(self) -> Index:
        """Where its records are."""
        return self._obtained[0]

    @property
    def damage(self) -> dict[int, Skipped]:
        """The places that hold no record."""
        return self._obtained[1]


class ObjectShards(ShardSet):
    """Shards of a store whose records are numbered through."""

    def __init__(self, paths: Sequence[Path], counts: Sequence[int] | None) -> None:
        self._told = (tuple(paths), counts)
        if not all(isinstance(path, ObjectPath) for path in paths):
            raise FileProblem(paths[0], "files of this machine and objects of a store cannot be one split")
        known: Sequence[int | None] = counts or [None] * len(paths)
        self.shards = tuple(
            ObjectShard(path, count) for path, count in zip(paths, known, strict=True) if isinstance(path, ObjectPath)
        )
        if counts is None:
            self._load_indexes(range(len(self.shards)))
            counts = [len(shard.index) for shard in self.shards]
        self.first: Ints = np.zeros(len(self.shards) + 1, np.int64)
        np.cumsum(counts, out=self.first[1:])
        self._blocks = _Blocks(self.shards)
        self._doubted: set[Block] = set()  # what was read a second time, and need not be a third

    def __reduce__(self) -> Any:
        return ObjectShards, self._told

    @property
    def is_compressed(self) -> bool:
        """Whether the shards must be inflated; all of a dataset are alike."""
        shards = self.shards if self._told[1] is None else self.shards[:1]
        return any(shard.index.compression is not None for shard in shards)

    @property
    def _damaged(self) -> dict[int, Skipped]:  # type: ignore[override]
        if self._told[1] is not None:
            return {}
        return {
            int(start) + record: skipped
            for start, shard in zip(self.first, self.shards, strict=False)
            for record, skipped in shard.damage.items()
        }

    def map(self) -> None:
        """Nothing is mapped before it is fetched."""

    def values(self, name: str) -> Any:
        """What the indexes carry under a name, over all records; None if one of them does not."""
        self._load_indexes(range(len(self.shards)))
        return super().values(name)

    def _load_indexes(self, numbers: Iterable[int]) -> None:
        missing = [self.shards[number] for number in numbers if "_obtained" not in self.shards[number].__dict__]
        if len(missing) == 1:
            len(missing[0].index)
        elif missing:
            with ThreadPoolExecutor(_INDEXES_AT_ONCE) as pool:
                list(pool.map(lambda shard: len(shard.index), missing))

    def decode(self, rows: Ints, wanted: Wanted) -> Decoded:
        """Decode features of the records, in the order given."""
        begin = perf_counter()
        owners, offsets, lengths = self._places(rows)
        memory, extents = self._gather(owners, offsets, lengths)
        seconds = perf_counter() - begin
        columns, faults, _ = _native.decode(memory, extents, wanted)
        if faults and self._read_again(owners, offsets, lengths, faults):
            memory, extents = self._gather(owners, offsets, lengths)
            columns, faults, _ = _native.decode(memory, extents, wanted)
        return Decoded(columns, self.with_damage(rows, faults), seconds)

    def prefetch(self, rows: Ints) -> int:
        """Have what these records need on its way; how many blocks that is."""
        owners, offsets, lengths = self._places(rows)
        blocks = _blocks_of(owners, offsets, lengths)[0]
        self._blocks.ask_for(blocks[: self._blocks.most // 2])  # what is on its way must not push itself out
        return len(blocks)

    def hold(self, records: int) -> None:
        """Have at hand what holds so many records, twice over: a shuffle in blocks goes to and fro among them."""
        size = sum(shard.size for shard in self.shards) / max(1, len(self))
        self._blocks.most = max(self._blocks.most, int(2 * records * size / BLOCK_BYTES))

    def warn_of_refetching(self) -> None:
        """Say it if a shuffle over all records would fetch the same blocks again and again."""
        size, limit = sum(shard.size for shard in self.shards), the_cache().limit
        if size > limit:
            warnings.warn(
                f"{self.shards[0].path.parent}: {readable_size(size)} are shuffled record by record through a cache of "
                f"{readable_size(limit)}, so blocks are fetched many times: set BUSHEL_CACHE_SIZE to hold all of it, "
                "or shuffle in blocks with Order(shuffle=True, block=..., window=...)",
                StoreShuffle,
                stacklevel=6,
            )

    def _places(self, rows: Ints) -> tuple[Ints, Ints, Ints]:
        """Shard of each record, where it begins there, and how long it is with its framing."""
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(self):
            raise IndexError(f"records must be below {len(self)}, got {int(rows.min())} to {int(rows.max())}")
        owners: Ints = np.searchsorted(self.first, rows, side="right") - 1
        numbers = np.unique(owners).tolist()
        self._load_indexes(numbers)
        offsets, lengths = np.empty_like(owners), np.empty_like(owners)
        for number in numbers:
            here = np.flatnonzero(owners == number)
            index, records = self.shards[number].index, rows[here] - self.first[number]
            offsets[here] = index.offsets[records]
            lengths[here] = index.lengths[records].astype(np.int64) + HEADER + FOOTER
        return owners, offsets, lengths

    def _gather(self, owners: Ints, offsets: Ints, lengths: Ints) -> tuple[Any, Any]:
        """Memory that holds the framed records one behind the other, and where each is."""
        blocks, which, starts, sizes = _blocks_of(owners, offsets, lengths)
        memory = _native.gather(self._blocks.get(blocks), which, starts, sizes)
        begins = np.cumsum(lengths) - lengths
        return memory, np.stack([begins, lengths - HEADER - FOOTER], axis=1).astype(np.uint64)

    def _read_again(self, owners: Ints, offsets: Ints, lengths: Ints, faults: RowFaults) -> bool:
        """Fetch anew what holds records at fault, unless that was done before."""
        bad = np.array([row for row, fault, _ in faults if fault < Fault.WRONG_KIND], np.int64)
        blocks = set(_blocks_of(owners[bad], offsets[bad], lengths[bad])[0]) - self._doubted
        self._doubted |= blocks
        self._blocks.forget(blocks)
        return bool(blocks)


def _blocks_of(owners: Ints, offsets: Ints, lengths: Ints) -> tuple[list[Block], Ints, Ints, Ints]:
    """The blocks that hold records; and the pieces of these records: which block, from where in it, how long."""
    first, last = offsets // BLOCK_BYTES, (offsets + lengths - 1) // BLOCK_BYTES
    counts = last - first + 1
    record = np.repeat(np.arange(len(owners)), counts)
    block = first[record] + np.arange(len(record)) - np.repeat(np.cumsum(counts) - counts, counts)
    begin = np.maximum(offsets[record], block * BLOCK_BYTES)
    end = np.minimum((offsets + lengths)[record], (block + 1) * BLOCK_BYTES)
    pairs, which = np.unique(np.stack([owners[record], block], axis=1), axis=0, return_inverse=True)
    blocks = [(shard, number) for shard, number in pairs.tolist()]
    return blocks, which.reshape(-1).astype(np.int64), begin - block * BLOCK_BYTES, end - begin


class _Blocks:
    """Blocks at hand or on their way, those used longest ago dropped first. Threads share them."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._shards = shards
        self._cache = the_cache()
        most = min(_HELD_MAPPED, self._cache.limit // (4 * BLOCK_BYTES))
        self.most = max(most, _HELD_IN_MEMORY)
        self._held: OrderedDict[Block, Any] = OrderedDict()  # bytes, or a future of those of several blocks
        self._last: Block | None = None  # that was asked for
        self._lock = threading.Lock()

    def get(self, blocks: Sequence[Block]) -> list[Any]:
        """Their bytes; waits for them."""
        return [found.result()[block] if isinstance(found, Future) else found for block, found in self.ask_for(blocks)]

    def ask_for(self, blocks: Sequence[Block]) -> list[tuple[Block, Any]]:
        """Each block with its bytes, or with the future of a fetch that brings them."""
        with self._lock:
            missing = []
            for block in blocks:
                if block not in self._held:
                    found = self._cache.find(self._name(block))
                    if found is None:
                        missing.append(block)
                        continue
                    self._held[block] = found
                self._held.move_to_end(block)
            for run in map(self._extended, _runs(missing)):
                future = in_background(self._fetch, run)
                self._held.update(dict.fromkeys(run, future))
            asked = [(block, self._held[block]) for block in blocks]
            while len(self._held) > self.most:
                self._held.popitem(last=False)
        return asked

    def _extended(self, run: list[Block]) -> list[Block]:
        """Where blocks are asked for one behind the other, a request brings the next ones too."""
        (shard, number), last = run[0], self._last
        if last == (shard, number - 1):
            count = -(-self._shards[shard].size // BLOCK_BYTES)
            following = range(run[-1][1] + 1, min(number + _AT_ONCE, count))
            more = takewhile(lambda block: block not in self._held, ((shard, place) for place in following))
            run = [*run, *more]
        self._last = run[-1]
        return run

    def _fetch(self, run: list[Block]) -> dict[Block, Any]:
        """Blocks that lie side by side, with one request."""
        try:
            shard = self._shards[run[0][0]]
            path = shard.path
            assert isinstance(path, ObjectPath)
            start, stop = run[0][1] * BLOCK_BYTES, min((run[-1][1] + 1) * BLOCK_BYTES, shard.size)
            data = get(path.key, start, stop, path.status().etag)
            found: dict[Block, Any] = {}
            for at, block in enumerate(run):
                piece = data[at * BLOCK_BYTES : (at + 1) * BLOCK_BYTES]
                self._cache.add(self._name(block), piece)
                found[block] = piece
        except BaseException:
            self.forget(run)  # whoever asks next tries again
            raise
        with self._lock:
            for block in run:
                if block in self._held and (mapped := self._cache.find(self._name(block))) is not None:
                    self._held[block] = mapped  # memory of the system's, not of this process
        return found

    def forget(self, blocks: Iterable[Block]) -> None:
        """Fetch them anew when they are next asked for."""
        for block in blocks:
            with self._lock:
                self._held.pop(block, None)
            self._cache.forget(self._name(block))

    def _name(self, block: Block) -> str:
        path = self._shards[block[0]].path
        assert isinstance(path, ObjectPath)
        return f"{name_of(path, path.status())}.{block[1]}"


def _runs(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    """Blocks that lie side by side, some at a time."""
    for _, group in groupby(enumerate(blocks), lambda pair: (pair[1][0], pair[1][1] - pair[0])):
        run = [block for _, block in group]
        yield from (run[begin : begin + _AT_ONCE] for begin in range(0, len(run), _AT_ONCE))


def read_ahead(shards: ShardSet, tasks: Iterator[tuple[T, Ints]]) -> Iterator[T]:
    """The same tasks, given with the records of each; what the following ones need is fetched meanwhile."""
    if not isinstance(shards, ObjectShards):
        yield from (task for task, _ in tasks)
        return
    coming: deque[tuple[T, int]] = deque()
    blocks = 0
    for task, rows in tasks:
        needed = shards.prefetch(rows)
        coming.append((task, needed))
        blocks += needed
        while blocks > _AHEAD and len(coming) > 1:
            first, done = coming.popleft()
            blocks -= done
            yield first
    yield from (task for task, _ in coming)
