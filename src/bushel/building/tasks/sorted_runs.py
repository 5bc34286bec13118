"""Sorted runs: the records of a partition that is read once, sorted by planned place, for shards to merge."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.building.planning.plan import ShardPlan, load_array, save_array
from bushel.building.tasks.shard_files import InOrder, PlacedRecords, write_all
from bushel.errors import FileProblem
from bushel.storage import give_name, local_paths, read_past_cache, whole_path

__all__ = ["SortedRunWriter", "merge_runs"]

RUN_BYTES = 48 << 20  # sorted at a time
WINDOW_BYTES = 16 << 20  # merged at a time
_AT_ONCE = 16  # requests to a store

# `segments.npy` has, per run and shard, the number of its first record and the byte where that begins, and one more.
_EDGES, _PLACES, _LENGTHS, _LABELS, _DATA = "segments.npy", "places.npy", "lengths.npy", "labels.npy", "data"


@dataclass
class SortedRunWriter:
    """Sorts the records of one partition, as much as memory holds at a time, and writes them to one file.

    Runs are merged and removed soon after. Those that are not `durable` may never reach the disk, and are not trusted
    after the machine has restarted.
    """

    stem: Path
    shards: Sequence[ShardPlan]
    durable: bool = True
    _held: list[PlacedRecords] = field(default_factory=list)
    _held_bytes: int = 0
    _done: list[tuple[NDArray[np.int64], NDArray[np.int64], Any]] = field(default_factory=list)
    _edges: list[NDArray[np.int64]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._firsts = np.array([*(shard.first for shard in self.shards), self.shards[-1].end])
        self._temporary = whole_path(_file(self.stem, _DATA))
        self._file = self._temporary.open("wb", buffering=0)
        self._records = self.bytes = 0

    def add(self, records: PlacedRecords) -> None:
        """Take more records."""
        self._held.append(records)
        self._held_bytes += len(records.data)
        if self._held_bytes >= RUN_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._held:
            return
        ordered = InOrder.of(self._held)
        self._held.clear()
        write_all(self._file, ordered.gather())
        self._note(ordered.places, ordered.lengths, ordered.labels)
        self._held_bytes = 0

    def _note(self, places: NDArray[np.int64], lengths: NDArray[np.int64], labels: Any) -> None:
        edges = np.searchsorted(places, self._firsts)
        ends = np.concatenate([[0], np.cumsum(lengths)])
        self._edges.append(np.stack([edges + self._records, ends[edges] + self.bytes], axis=1))
        self._done.append((places, lengths, labels))
        self._records += len(places)
        self.bytes += int(ends[-1])

    def __enter__(self) -> SortedRunWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Finish all files, which count as complete once the journal says so; after an error, remove them."""
        if kind is not None:
            self._file.close()
            self._temporary.unlink(missing_ok=True)
            return
        self._flush()
        if self.durable:
            os.fsync(self._file.fileno())
        self._file.close()
        give_name(self._temporary, _file(self.stem, _DATA))
        shape = (0, len(self._firsts), 2)
        save_array(_file(self.stem, _EDGES), np.stack(self._edges) if self._edges else np.empty(shape, np.int64))
        places, lengths, labels = ([arrays[i] for arrays in self._done] for i in range(3))
        save_array(_file(self.stem, _PLACES), _joined(places))
        save_array(_file(self.stem, _LENGTHS), _joined(lengths))
        if labels and labels[0] is not None:
            save_array(_file(self.stem, _LABELS), np.concatenate(labels))


def _joined(arrays: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([*arrays, np.empty(0, np.int64)])


def _file(stem: Path, suffix: str) -> Path:
    return stem.with_name(f"{stem.name}.{suffix}")


@dataclass(frozen=True)
class _Share:
    """What one run holds for one shard; the records themselves stay in their file."""

    path: Path  # of that file
    first_byte: int
    places: NDArray[np.int64]
    lengths: NDArray[np.int64]
    labels: NDArray[Any] | None


def _shares(files: Mapping[str, Path], stem: str, shard: int) -> list[_Share]:
    # Copied, not mapped: each mapping holds a file open, and there may be thousands of partitions.
    edges = np.array(load_array(files[f"{stem}.{_EDGES}"])[:, shard : shard + 2])
    if not len(edges) or (edges[:, 0, 0] == edges[:, 1, 0]).all():
        return []
    places, lengths = load_array(files[f"{stem}.{_PLACES}"]), load_array(files[f"{stem}.{_LENGTHS}"])
    labels = load_array(files[f"{stem}.{_LABELS}"]) if f"{stem}.{_LABELS}" in files else None
    return [
        _Share(
            files[f"{stem}.{_DATA}"],
            first_byte,
            np.array(places[begin:end]),
            np.array(lengths[begin:end]),
            None if labels is None else np.array(labels[begin:end]),
        )
        for (begin, first_byte), (end, _) in edges.tolist()
        if end > begin
    ]


def merge_runs(
    files: Mapping[str, Path], stems: Iterable[str], shard: int, planned: ShardPlan, scratch: Path
) -> Iterator[list[PlacedRecords]]:
    """The records of one shard from the runs of all partitions, a window of planned places at a time.

    `files` are those of the runs, by name. What is in a store is first copied to a file in `scratch`. The next window
    reuses the memory of what is yielded.
    """
    is_here = all(local_paths([path]) for path in islice(files.values(), 1))
    with ThreadPoolExecutor(_AT_ONCE) if not is_here else nullcontext() as pool:
        found = (pool.map if pool else map)(lambda stem: _shares(files, stem, shard), stems)
        shares = [share for some in found for share in some]
        if pool:
            shares = _brought(shares, scratch / "runs", pool)
    if not shares:
        return
    limits = _windows(shares, planned)
    edges = [np.searchsorted(share.places, limits) for share in shares]
    ends = [np.concatenate([[0], np.cumsum(share.lengths)])[edge] for share, edge in zip(shares, edges, strict=True)]
    sizes = np.diff(np.sum(ends, axis=0))
    memory = _memory(int(sizes.max()))
    for window in range(len(limits) - 1):
        slices = [slice(*edge[window : window + 2].tolist()) for edge in edges]
        _read_window(shares, [end[window : window + 2].tolist() for end in ends], memory)
        yield [_placed(shares, slices, memory[: sizes[window]])]


def _brought(shares: Sequence[_Share], path: Path, pool: ThreadPoolExecutor) -> list[_Share]:
    """The same shares, with their records in a file on this machine."""
    sizes = [int(share.lengths.sum()) for share in shares]
    here = [
        replace(share, path=path, first_byte=end - size)
        for share, size, end in zip(shares, sizes, accumulate(sizes), strict=True)
    ]
    path.touch()
    with path.open("r+b", buffering=0) as file:

        def bring(there: _Share, own: _Share, size: int) -> None:
            os.pwrite(file.fileno(), read_past_cache(there.path, there.first_byte, size), own.first_byte)

        deque(pool.map(bring, shares, here, sizes), maxlen=0)
    return here


def _memory(size: int) -> NDArray[np.uint8]:
    """Memory for a window: that of the previous shard, whose pages need not be cleared again."""
    if size > 2 * WINDOW_BYTES:
        return np.empty(size, np.uint8)
    if not hasattr(_usual, "window"):
        _usual.window = np.empty(2 * WINDOW_BYTES, np.uint8)
    window: NDArray[np.uint8] = _usual.window
    return window


_usual = threading.local()  # a worker may be a thread


def _windows(shares: Sequence[_Share], planned: ShardPlan) -> NDArray[np.int64]:
    """Planned places that divide the shard into windows of about the bytes merged at a time."""
    lengths = np.zeros(planned.end - planned.first, np.int64)  # places of refused samples stay empty
    for share in shares:
        lengths[share.places - planned.first] = share.lengths
    ends = np.cumsum(lengths)
    cuts = np.searchsorted(ends, np.arange(WINDOW_BYTES, int(ends[-1]), WINDOW_BYTES), side="right")
    return np.unique(np.concatenate([[planned.first], planned.first + cuts, [planned.end]]))


def _read_window(shares: Sequence[_Share], ranges: Sequence[list[int]], memory: NDArray[np.uint8]) -> None:
    """What each share holds of the window, one after the other. One file is open at a time."""
    at, file, path = 0, None, None
    view = memory.data
    try:
        for share, (begin, end) in zip(shares, ranges, strict=True):
            if begin == end:
                continue
            if share.path != path:
                if file is not None:
                    file.close()
                file, path = share.path.open("rb", buffering=0), share.path
            assert file is not None
            file.seek(share.first_byte + begin)
            if file.readinto(view[at : at + end - begin]) != end - begin:
                raise FileProblem(share.path, "ends early: is the disk failing?")
            at += end - begin
    finally:
        if file is not None:
            file.close()


def _placed(shares: Sequence[_Share], slices: Sequence[slice], data: NDArray[np.uint8]) -> PlacedRecords:
    pairs = list(zip(shares, slices, strict=True))
    lengths = np.concatenate([share.lengths[taken] for share, taken in pairs])
    labels = [share.labels[taken] for share, taken in pairs if share.labels is not None]
    places = np.concatenate([share.places[taken] for share, taken in pairs])
    starts = np.cumsum(lengths) - lengths
    return PlacedRecords(places, data, starts, lengths, np.concatenate(labels) if labels else None)
