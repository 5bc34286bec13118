"""Shards that cannot be mapped: the blocks that hold the records asked for are fetched, kept on disk, and decoded."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from bushel import _native
from bushel.errors import Fault, readable_size
from bushel.reading.shards import Decoded, Ints, RowFaults, Shard, ShardSet, Wanted
from bushel.records.files import FOOTER, HEADER
from bushel.storage import cache
from bushel.storage.cache import Block, Blocks, the_cache

__all__ = ["FetchedShards", "StoreShuffle"]

_AHEAD = 24  # blocks under way before they are needed

T = TypeVar("T")


class StoreShuffle(UserWarning):
    """A shuffle that fetches the blocks of an object store many times over."""


class FetchedShards(ShardSet):
    """Shards in a store whose records are numbered consecutively."""

    def __init__(self, shards: Sequence[Shard], counts: Sequence[int] | None = None) -> None:
        super().__init__(shards, counts)
        self._blocks = Blocks([shard.path for shard in shards])
        self._doubted: set[Block] = set()  # what was read a second time, and need not be a third

    def begin(self, *, shuffled_among: int | None) -> None:
        """Warn if a shuffle over all records would fetch the same blocks again and again."""
        if shuffled_among:
            self.hold(shuffled_among)
        size, limit = sum(shard.size for shard in self.shards), the_cache().limit
        if shuffled_among is None and size > limit:
            warnings.warn(
                f"{self.shards[0].path.parent}: {readable_size(size)} are shuffled record by record through a cache of "
                f"{readable_size(limit)}, so blocks are fetched many times: set BUSHEL_CACHE_SIZE to hold all of it, "
                "or shuffle in blocks with Order(shuffle=True, block=..., window=...)",
                StoreShuffle,
                stacklevel=6,
            )

    def hold(self, records: int) -> None:
        """Keep what holds this many records at hand, twice over: a shuffle in blocks goes back and forth among them."""
        size = sum(shard.size for shard in self.shards) / max(1, len(self))
        self._blocks.most = max(self._blocks.most, int(2 * records * size / cache.BLOCK_BYTES))

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

    def ahead(self, tasks: Iterator[T], rows_of: Callable[[T], Ints]) -> Iterator[T]:
        """The same tasks; the blocks that the following ones need are fetched in the meantime."""
        coming: deque[tuple[T, int]] = deque()
        under_way = 0
        for task in tasks:
            blocks = _blocks_of(*self._places(rows_of(task)))[0]
            self._blocks.ask_for(blocks[: self._blocks.most // 2])  # what is under way must not push itself out
            coming.append((task, len(blocks)))
            under_way += len(blocks)
            while under_way > _AHEAD and len(coming) > 1:
                first, done = coming.popleft()
                under_way -= done
                yield first
        yield from (task for task, _ in coming)

    def _places(self, rows: Ints) -> tuple[Ints, Ints, Ints]:
        """Shard of each record, where it begins there, and its length with framing."""
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(self):
            raise IndexError(f"records must be below {len(self)}, got {int(rows.min())} to {int(rows.max())}")
        owners: Ints = np.searchsorted(self.first, rows, side="right") - 1
        numbers = np.unique(owners).tolist()
        self.load_indexes(numbers)
        offsets, lengths = np.empty_like(owners), np.empty_like(owners)
        for number in numbers:
            here = np.flatnonzero(owners == number)
            index, records = self.shards[number].index, rows[here] - self.first[number]
            offsets[here] = index.offsets[records]
            lengths[here] = index.lengths[records].astype(np.int64) + HEADER + FOOTER
        return owners, offsets, lengths

    def _gather(self, owners: Ints, offsets: Ints, lengths: Ints) -> tuple[Any, Any]:
        """Memory that holds the framed records one after the other, and where each is."""
        blocks, which, starts, sizes = _blocks_of(owners, offsets, lengths)
        memory = _native.gather(self._blocks.get(blocks), which, starts, sizes)
        begins = np.cumsum(lengths) - lengths
        return memory, np.stack([begins, lengths - HEADER - FOOTER], axis=1).astype(np.uint64)

    def _read_again(self, owners: Ints, offsets: Ints, lengths: Ints, faults: RowFaults) -> bool:
        """Fetch what holds records at fault again, unless that was done before."""
        bad = np.array([row for row, fault, _ in faults if fault < Fault.WRONG_KIND], np.int64)
        blocks = set(_blocks_of(owners[bad], offsets[bad], lengths[bad])[0]) - self._doubted
        self._doubted |= blocks
        self._blocks.forget(blocks)
        return bool(blocks)


def _blocks_of(owners: Ints, offsets: Ints, lengths: Ints) -> tuple[list[Block], Ints, Ints, Ints]:
    """The blocks that hold records; and the pieces of these records: block, offset in it, length."""
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
