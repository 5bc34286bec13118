"""Runs: what a partition that is read once leaves for the shards. Each is sorted by planned place."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.storage import temporary_path
from bushel.writing.plans import ShardPlan, load_array, save_array
from bushel.writing.shards import Segment, write_early

__all__ = ["RunWriter", "merge_runs"]

RUN_BYTES = 48 << 20  # sorted at a time
WINDOW_BYTES = 16 << 20  # merged at a time

# Of each run and shard: the number of its first record, and the byte where that begins; and one more at the end.
_SEGMENTS, _PLACES, _LENGTHS, _LABELS, _DATA = "segments.npy", "places.npy", "lengths.npy", "labels.npy", "data"


@dataclass
class RunWriter:
    """Sorts the records of one partition, as much as memory holds at a time, and writes them to one file."""

    stem: Path
    shards: Sequence[ShardPlan]
    _held: list[Segment] = field(default_factory=list)
    _held_bytes: int = 0
    _done: list[tuple[NDArray[np.int64], NDArray[np.int64], Any]] = field(default_factory=list)
    _edges: list[NDArray[np.int64]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._firsts = np.array([*(shard.first for shard in self.shards), self.shards[-1].end])
        self._temporary = temporary_path(self.stem)
        self._file = self._temporary.open("wb", buffering=0)
        self._records = self._bytes = 0

    def add(self, segment: Segment) -> None:
        """Take more records."""
        self._held.append(segment)
        self._held_bytes += len(segment.data)
        if self._held_bytes >= RUN_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._held:
            return
        places = np.concatenate([segment.places for segment in self._held])
        order = np.argsort(places)
        which = np.repeat(np.arange(len(self._held)), [len(segment.places) for segment in self._held])[order]
        starts = np.concatenate([segment.starts for segment in self._held])[order]
        lengths = np.concatenate([segment.lengths for segment in self._held])[order]
        labels = [segment.labels for segment in self._held if segment.labels is not None]
        data: Any = _native.gather([segment.data for segment in self._held], which, starts, lengths)
        self._held.clear()
        write_early(self._file, data, self._bytes)
        self._note(places[order], lengths, np.concatenate(labels)[order] if labels else None)
        self._held_bytes = 0

    def _note(self, places: NDArray[np.int64], lengths: NDArray[np.int64], labels: Any) -> None:
        edges = np.searchsorted(places, self._firsts)
        ends = np.concatenate([[0], np.cumsum(lengths)])
        self._edges.append(np.stack([edges + self._records, ends[edges] + self._bytes], axis=1))
        self._done.append((places, lengths, labels))
        self._records += len(places)
        self._bytes += int(ends[-1])

    def close(self) -> int:
        """Finish all files; they are complete once the journal says so. Returns their bytes."""
        self._flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._temporary.replace(_file(self.stem, _DATA))
        shape = (0, len(self._firsts), 2)
        save_array(_file(self.stem, _SEGMENTS), np.stack(self._edges) if self._edges else np.empty(shape, np.int64))
        places, lengths, labels = ([part[i] for part in self._done] for i in range(3))
        save_array(_file(self.stem, _PLACES), _joined(places))
        save_array(_file(self.stem, _LENGTHS), _joined(lengths))
        if labels and labels[0] is not None:
            save_array(_file(self.stem, _LABELS), np.concatenate(labels))
        return self._bytes

    def discard(self) -> None:
        """Give up: nothing stays."""
        self._file.close()
        self._temporary.unlink(missing_ok=True)


def _joined(arrays: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([*arrays, np.empty(0, np.int64)])


def _file(stem: Path, suffix: str) -> Path:
    return stem.with_name(f"{stem.name}.{suffix}")


@dataclass(frozen=True)
class _Part:
    """What one run holds for one shard; the records themselves are still in their file."""

    path: Path
    first_byte: int
    places: NDArray[np.int64]
    lengths: NDArray[np.int64]
    labels: NDArray[Any] | None

    def between(self, low: int, high: int) -> Segment | None:
        """Read the records whose places are in [low, high): they lie together."""
        begin, end = np.searchsorted(self.places, [low, high]).tolist()
        if begin == end:
            return None
        sizes = self.lengths[begin:end]
        with self.path.open("rb", buffering=0) as file:
            file.seek(self.first_byte + int(self.lengths[:begin].sum()))
            data = file.read(int(sizes.sum()))
        labels = None if self.labels is None else self.labels[begin:end]
        return Segment(self.places[begin:end], data, np.cumsum(sizes) - sizes, sizes, labels)


def _parts(stem: Path, shard: int) -> list[_Part]:
    # Copied, not mapped: each mapping holds a file open, and there may be thousands of partitions.
    edges = np.array(load_array(_file(stem, _SEGMENTS))[:, shard : shard + 2])
    if not len(edges) or (edges[:, 0, 0] == edges[:, 1, 0]).all():
        return []
    places, lengths = load_array(_file(stem, _PLACES)), load_array(_file(stem, _LENGTHS))
    labels = load_array(_file(stem, _LABELS)) if _file(stem, _LABELS).exists() else None
    return [
        _Part(
            _file(stem, _DATA),
            first_byte,
            np.array(places[begin:end]),
            np.array(lengths[begin:end]),
            None if labels is None else np.array(labels[begin:end]),
        )
        for (begin, first_byte), (end, _) in edges.tolist()
        if end > begin
    ]


def merge_runs(stems: Iterable[Path], shard: int) -> Iterator[list[Segment]]:
    """The records of one shard from the runs of all partitions, a window of planned places at a time."""
    parts = [part for stem in stems for part in _parts(stem, shard)]
    if not parts:
        return
    places = np.concatenate([part.places for part in parts])
    order = np.argsort(places)
    places, ends = places[order], np.cumsum(np.concatenate([part.lengths for part in parts])[order])
    cuts = np.searchsorted(ends, np.arange(WINDOW_BYTES, int(ends[-1]), WINDOW_BYTES), side="right")
    limits = [int(places[0]), *(int(place) for place in np.unique(places[np.minimum(cuts, len(places) - 1)]))]
    limits = [*dict.fromkeys(limits), int(places[-1]) + 1]
    for low, high in pairwise(limits):
        found = [part.between(low, high) for part in parts]
        yield [segment for segment in found if segment is not None]
