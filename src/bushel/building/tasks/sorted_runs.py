"""Sorted runs: what a partition that is read once leaves for the shards, sorted by planned place."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.building.planning.plan import ShardPlan, load_array, save_array
from bushel.building.tasks.shard_files import Segment, order_of, write_all
from bushel.errors import FileProblem
from bushel.storage import temporary_path

__all__ = ["RunWriter", "merge_runs"]

RUN_BYTES = 48 << 20  # sorted at a time
WINDOW_BYTES = 32 << 20  # merged at a time

# Of each run and shard: the number of its first record, and the byte where that begins; and one more at the end.
_SEGMENTS, _PLACES, _LENGTHS, _LABELS, _DATA = "segments.npy", "places.npy", "lengths.npy", "labels.npy", "data"


@dataclass
class RunWriter:
    """Sorts the records of one partition, as much as memory holds at a time, and writes them to one file.

    Runs are merged and removed soon after: those that are not `durable` may never reach the disk, and are not trusted
    once the machine has restarted.
    """

    stem: Path
    shards: Sequence[ShardPlan]
    durable: bool = True
    _held: list[Segment] = field(default_factory=list)
    _held_bytes: int = 0
    _done: list[tuple[NDArray[np.int64], NDArray[np.int64], Any]] = field(default_factory=list)
    _edges: list[NDArray[np.int64]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._firsts = np.array([*(shard.first for shard in self.shards), self.shards[-1].end])
        self._temporary = temporary_path(self.stem)
        self._file = self._temporary.open("wb", buffering=0)
        self._records = self.bytes = 0

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
        order = order_of(places)
        which = np.repeat(np.arange(len(self._held)), [len(segment.places) for segment in self._held])[order]
        starts = np.concatenate([segment.starts for segment in self._held])[order]
        lengths = np.concatenate([segment.lengths for segment in self._held])[order]
        labels = [segment.labels for segment in self._held if segment.labels is not None]
        data: Any = _native.gather([segment.data for segment in self._held], which, starts, lengths)
        self._held.clear()
        write_all(self._file, data)
        self._note(places[order], lengths, np.concatenate(labels)[order] if labels else None)
        self._held_bytes = 0

    def _note(self, places: NDArray[np.int64], lengths: NDArray[np.int64], labels: Any) -> None:
        edges = np.searchsorted(places, self._firsts)
        ends = np.concatenate([[0], np.cumsum(lengths)])
        self._edges.append(np.stack([edges + self._records, ends[edges] + self.bytes], axis=1))
        self._done.append((places, lengths, labels))
        self._records += len(places)
        self.bytes += int(ends[-1])

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Finish all files, which are complete once the journal says so; after an error, remove them."""
        if kind is not None:
            self._file.close()
            self._temporary.unlink(missing_ok=True)
            return
        self._flush()
        if self.durable:
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


def _joined(arrays: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([*arrays, np.empty(0, np.int64)])


def _file(stem: Path, suffix: str) -> Path:
    return stem.with_name(f"{stem.name}.{suffix}")


@dataclass(frozen=True)
class _Part:
    """What one run holds for one shard; the records themselves are still in their file."""

    stem: Path
    first_byte: int
    places: NDArray[np.int64]
    lengths: NDArray[np.int64]
    labels: NDArray[Any] | None


def _parts(stem: Path, shard: int) -> list[_Part]:
    # Copied, not mapped: each mapping holds a file open, and there may be thousands of partitions.
    edges = np.array(load_array(_file(stem, _SEGMENTS))[:, shard : shard + 2])
    if not len(edges) or (edges[:, 0, 0] == edges[:, 1, 0]).all():
        return []
    places, lengths = load_array(_file(stem, _PLACES)), load_array(_file(stem, _LENGTHS))
    labels = load_array(_file(stem, _LABELS)) if _file(stem, _LABELS).exists() else None
    return [
        _Part(
            stem,
            first_byte,
            np.array(places[begin:end]),
            np.array(lengths[begin:end]),
            None if labels is None else np.array(labels[begin:end]),
        )
        for (begin, first_byte), (end, _) in edges.tolist()
        if end > begin
    ]


def merge_runs(stems: Iterable[Path], shard: int, planned: ShardPlan) -> Iterator[list[Segment]]:
    """The records of one shard from the runs of all partitions, a window of planned places at a time.

    What is yielded is in memory that the next window uses again.
    """
    parts = [part for stem in stems for part in _parts(stem, shard)]
    if not parts:
        return
    limits = _windows(parts, planned)
    edges = [np.searchsorted(part.places, limits) for part in parts]
    ends = [np.concatenate([[0], np.cumsum(part.lengths)])[edge] for part, edge in zip(parts, edges, strict=True)]
    sizes = np.diff(np.sum(ends, axis=0))
    memory = _memory(int(sizes.max()))
    for window in range(len(limits) - 1):
        slices = [slice(*edge[window : window + 2].tolist()) for edge in edges]
        _read_window(parts, [end[window : window + 2].tolist() for end in ends], memory)
        yield [_segment(parts, slices, memory[: sizes[window]])]


def _memory(size: int) -> NDArray[np.uint8]:
    """Memory for a window: that of the shard before, whose pages need not be cleared again."""
    if size > 2 * WINDOW_BYTES:
        return np.empty(size, np.uint8)
    if not hasattr(_usual, "window"):
        _usual.window = np.empty(2 * WINDOW_BYTES, np.uint8)
    window: NDArray[np.uint8] = _usual.window
    return window


_usual = threading.local()  # a worker may be a thread


def _windows(parts: Sequence[_Part], planned: ShardPlan) -> NDArray[np.int64]:
    """Planned places between which there are about as many bytes as are merged at a time."""
    lengths = np.zeros(planned.end - planned.first, np.int64)  # places that are refused stay empty
    for part in parts:
        lengths[part.places - planned.first] = part.lengths
    ends = np.cumsum(lengths)
    cuts = np.searchsorted(ends, np.arange(WINDOW_BYTES, int(ends[-1]), WINDOW_BYTES), side="right")
    return np.unique(np.concatenate([[planned.first], planned.first + cuts, [planned.end]]))


def _read_window(parts: Sequence[_Part], ranges: Sequence[list[int]], memory: NDArray[np.uint8]) -> None:
    """What each part holds of the window, one after the other. One file is open at a time."""
    at, file, stem = 0, None, None
    view = memory.data
    try:
        for part, (begin, end) in zip(parts, ranges, strict=True):
            if begin == end:
                continue
            if part.stem != stem:
                if file is not None:
                    file.close()
                file, stem = _file(part.stem, _DATA).open("rb", buffering=0), part.stem
            assert file is not None
            file.seek(part.first_byte + begin)
            if file.readinto(view[at : at + end - begin]) != end - begin:
                raise FileProblem(_file(part.stem, _DATA), "ends early: is the disk failing?")
            at += end - begin
    finally:
        if file is not None:
            file.close()


def _segment(parts: Sequence[_Part], slices: Sequence[slice], data: NDArray[np.uint8]) -> Segment:
    pairs = list(zip(parts, slices, strict=True))
    lengths = np.concatenate([part.lengths[taken] for part, taken in pairs])
    labels = [part.labels[taken] for part, taken in pairs if part.labels is not None]
    places = np.concatenate([part.places[taken] for part, taken in pairs])
    return Segment(places, data, np.cumsum(lengths) - lengths, lengths, np.concatenate(labels) if labels else None)
