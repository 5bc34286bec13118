"""Compressed shards, which can only be read from their beginning: a window of records is kept inflated."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bushel import _native
from bushel.errors import Fault
from bushel.reading.shards import Decoded, Ints, Shard, ShardSet, Wanted
from bushel.records.files import FOOTER, HEADER, Chunk, open_file

__all__ = ["InflatedShards"]

_FRAMING = HEADER + FOOTER
_CHUNK_BYTES = 4 << 20
_HELD_BYTES = 64 << 20  # inflated and kept, in addition to the chunk in use


@dataclass
class _Reading:
    """One pass over a shard, which goes on where it stopped."""

    chunks: Iterator[Chunk]
    done: int = 0  # records read so far


class InflatedShards(ShardSet):
    """Compressed shards, by the number of their records. Cheap where the numbers are close together and go up.

    Safe to use from several threads, one of which reads at a time.
    """

    is_sequential = True

    def __init__(self, shards: Sequence[Shard], counts: Sequence[int] | None = None) -> None:
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

    def decode(self, rows: Ints, wanted: Wanted) -> Decoded:
        """Decode features of the records, in the order given."""
        memory, extents, lost = self._gather(rows)
        columns, faults, _ = _native.decode(memory, extents, wanted)
        if lost:
            cut = [(place, int(Fault.TRUNCATED_STREAM), -1) for place in lost]
            faults = sorted([fault for fault in faults if fault[0] not in lost] + cut)
        return Decoded(columns, self.with_damage(rows, faults), 0.0)

    def _gather(self, rows: Ints) -> tuple[Any, Any, set[int]]:
        """Memory that holds the framed records, where each is, and which are no longer there."""
        places = np.argsort(rows, kind="stable")
        ordered = rows[places]
        pieces: list[Any] = [b""] * len(rows)
        lost: set[int] = set()
        at = 0
        while at < len(rows):
            shard = int(np.searchsorted(self.first, ordered[at], side="right")) - 1
            base = int(self.first[shard])
            if int(ordered[at]) - base in self.shards[shard].damage:
                at += 1  # there is no such record; its place is at fault
                continue
            with self._lock:
                chunk = self._chunk_with(shard, int(ordered[at]) - base)
            if chunk is None:
                lost.add(int(places[at]))
                at += 1
                continue
            first = base + chunk.first
            end = int(np.searchsorted(ordered, first + len(chunk.extents)))
            if end - at == len(rows):
                return chunk.memory, chunk.extents[rows - first], lost
            view = memoryview(chunk.memory)
            starts, lengths = chunk.extents[ordered[at:end] - first].T.tolist()
            for place, start, length in zip(places[at:end].tolist(), starts, lengths, strict=True):
                pieces[place] = view[start : start + length + _FRAMING]
            at = end
        return *_joined(pieces), lost

    def _chunk_with(self, shard: int, record: int) -> Chunk | None:
        """The chunk that holds a record; None if the file ends before it: it was cut since it was indexed."""
        for (owner, first), chunk in reversed(self._held.items()):
            if owner == shard and first <= record < first + len(chunk.extents):
                return chunk
        reading = self._readings.get(shard)
        if reading is None or record < reading.done:
            reading = self._restart(shard)
        for chunk in reading.chunks:
            reading.done = chunk.first + len(chunk.extents)
            self._keep(shard, chunk)
            if record < reading.done:
                return chunk
        return None

    def _restart(self, shard: int) -> _Reading:
        while len(self._readings) > 2:
            self._readings.pop(next(iter(self._readings)))
        file = open_file(self.shards[shard].path)
        self._readings[shard] = _Reading(file.chunks(on_fault=lambda _: None, max_bytes=_CHUNK_BYTES))
        return self._readings[shard]

    def _keep(self, shard: int, chunk: Chunk) -> None:
        self._held[shard, chunk.first] = chunk
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


def _bytes_of(chunk: Chunk) -> int:
    return int(chunk.extents[:, 1].sum()) + _FRAMING * len(chunk.extents)
