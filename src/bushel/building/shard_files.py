"""One shard: records in their planned order, from a source or from sorted runs; digests, index and keys."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.building.output.journal import Journal, Outcome
from bushel.building.output.writer import compressor
from bushel.building.planning.plan import ShardPlan, save_array
from bushel.data.columns import BytesColumn
from bushel.data.encoding import FRAMING
from bushel.errors import FileProblem
from bushel.parallel import available_cores
from bushel.records.files import Compression, open_file
from bushel.records.index import Index, ObjectOrigin, index_path, keys_path, load_index, save_index, tie_of
from bushel.storage import (
    fetch_extents,
    give_name,
    load_bytes,
    map_array,
    map_reads,
    sync_folder,
    temporary_path,
    upload,
    whole_path,
    write_whole,
)

__all__ = [
    "InOrder",
    "PlacedRecords",
    "ShardFile",
    "SortedRunWriter",
    "deliver",
    "merge_runs",
    "order_of",
    "read_back",
    "write_all",
    "write_in_order",
]

_GATHERED = 1 << 19  # bytes put into order at a time: they are hashed and written while the cache has them
_ADVISED = 16 << 20  # bytes after which the disk is asked to begin with them
_HASHED_HERE = 1 << 18  # bytes that can be hashed before a thread would have begun
_HASHED_LATER = 16 << 20  # bytes that may wait to be hashed
RUN_BYTES = 48 << 20  # sorted at a time
WINDOW_BYTES = 4 << 20  # merged at a time
# `segments.npy` has, per run and shard, the number of its first record and the byte where that begins, and one more.
_EDGES, _PLACES, _LENGTHS, _LABELS, _DATA = "segments.npy", "places.npy", "lengths.npy", "labels.npy", "data"


@dataclass(frozen=True)
class PlacedRecords:
    """Records somewhere in memory, and their places in the planned order."""

    places: NDArray[np.int64]
    data: Any
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]  # including framing
    labels: NDArray[Any] | None


class InOrder(NamedTuple):
    """Records in several pieces of memory, sorted by their planned places, for `_native.gather`."""

    places: NDArray[np.int64]
    which: NDArray[Any]  # which of `data` holds each record
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]  # including framing
    labels: NDArray[Any] | None
    data: list[Any]
    is_lent: bool = False  # their memory is used again once they are written

    @classmethod
    def of(cls, given: Sequence[PlacedRecords]) -> InOrder:
        """Sort records by their places."""
        places = np.concatenate([records.places for records in given])
        order = order_of(places)
        which = np.repeat(np.arange(len(given)), [len(records.places) for records in given])[order]
        starts = np.concatenate([records.starts for records in given])[order]
        lengths = np.concatenate([records.lengths for records in given])[order]
        labels = [records.labels for records in given if records.labels is not None]
        in_order = np.concatenate(labels)[order] if labels else None
        return cls(places[order], which, starts, lengths, in_order, [records.data for records in given])

    def cut(self, begin: int, end: int) -> InOrder:
        """Some of them."""
        some = slice(begin, end)
        labels = None if self.labels is None else self.labels[some]
        places, starts, lengths = self.places[some], self.starts[some], self.lengths[some]
        return InOrder(places, self.which[some], starts, lengths, labels, self.data)

    @property
    def lie_in_order(self) -> bool:
        """Whether they are one after the other in memory."""
        return len(self.data) == 1 and bool((self.starts == np.cumsum(self.lengths) - self.lengths).all())

    def pieces(self) -> Iterator[Any]:
        """The bytes of all records, some at a time."""
        ends = np.cumsum(self.lengths)
        if self.lie_in_order:
            total = int(self.lengths.sum())
            yield from (self.data[0][at : min(at + _GATHERED, total)] for at in range(0, total, _GATHERED))
            return
        begin = done = 0
        while begin < len(ends):
            end = max(begin + 1, int(np.searchsorted(ends, done + _GATHERED, side="right")))
            some = slice(begin, end)
            yield _native.gather(self.data, self.which[some], self.starts[some], self.lengths[some])
            begin, done = end, int(ends[end - 1])


@dataclass
class ShardFile:
    """A shard that is being written; it gets its name when it is finished."""

    path: Path
    compression: Compression | None
    places: list[NDArray[np.int64]] = field(default_factory=list)
    lengths: list[NDArray[np.int64]] = field(default_factory=list)
    labels: list[NDArray[Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._temporary = temporary_path(self.path)
        self._file = self._temporary.open("wb", buffering=0)
        self._written = self._advised = 0
        self._compress = compressor(self.compression)
        self._of_file = hashlib.sha256()
        self._of_records = self._of_file if self._compress is None else hashlib.sha256()
        self._hashers = ThreadPoolExecutor(1, thread_name_prefix="bushel-hash")
        self._hashing: deque[tuple[Future[None], int]] = deque()  # what waits to be hashed, and its bytes

    def write(self, data: Any) -> None:
        """Write framed records."""
        if self._compress is not None:
            self._of_records.update(data)
            data = self._compress.compress(data)
        self._put(data)

    def _put(self, data: Any) -> None:
        """Write bytes, and let the disk begin with them now rather than at the end."""
        self._hash(data)
        self._written += write_all(self._file, data)
        fresh = self._written - self._advised
        if fresh >= _ADVISED and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._file.fileno(), self._advised, fresh, os.POSIX_FADV_DONTNEED)
            self._advised = self._written

    def _hash(self, data: Any) -> None:
        """Add bytes to the digest of the file: many of them in a thread, if it has a core, while they are written."""
        if (len(data) < _HASHED_HERE or available_cores() == 1) and not self._hashing:
            self._of_file.update(data)
            return
        self._hashing.append((self._hashers.submit(self._of_file.update, data), len(data)))
        self.wait_for_hash(_HASHED_LATER)

    def wait_for_hash(self, most: int = 0) -> None:
        """Wait until no more than `most` bytes are left to be hashed."""
        while self._hashing and (self._hashing[0][0].done() or sum(size for _, size in self._hashing) > most):
            self._hashing.popleft()[0].result()

    def __enter__(self) -> ShardFile:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Give the file its name; after an error, remove it."""
        self.wait_for_hash()
        if kind is not None:
            self._hashers.shutdown()
            self._file.close()
            self._temporary.unlink(missing_ok=True)
            return
        if self._compress is not None:
            self._put(self._compress.flush())
            self.wait_for_hash()
        self._hashers.shutdown()
        os.fsync(self._file.fileno())
        self._file.close()
        self._temporary.replace(self.path)
        sync_folder(self.path.parent)

    @property
    def sha256(self) -> str:
        """The SHA-256 of the file."""
        return self._of_file.hexdigest()

    @property
    def digest(self) -> str:
        """The SHA-256 of its records, whatever their compression."""
        return self._of_records.hexdigest()

    @property
    def planned_places(self) -> NDArray[np.int64]:
        """The planned places of all records written, in order."""
        return np.concatenate([*self.places, np.empty(0, np.int64)])

    def index(self, hashes: NDArray[np.uint64], rows: NDArray[np.int64], partitions: NDArray[np.int64]) -> Index:
        """The index of what was written."""
        lengths = np.concatenate([*self.lengths, np.empty(0, np.int64)])
        offsets = np.cumsum(lengths) - lengths
        values: dict[str, NDArray[Any]] = {"key": hashes}
        if self.labels:
            values["label"] = np.concatenate(self.labels)
        values |= {"source/partition": partitions.astype(np.int32), "source/row": rows}
        sizes = (lengths - FRAMING).astype(np.uint32)
        of_file = self._of_file.hexdigest()
        index = Index(offsets.astype(np.uint64), sizes, self.compression, values, frozenset({"key"}), of_file)
        return index if self._compress is None else replace(index, starts=self._compress.starts)


def write_all(file: IO[bytes], data: Any) -> int:
    """Write bytes to an unbuffered file; returns how many."""
    view = memoryview(data)
    size = len(view)
    while view:
        view = view[file.write(view) or 0 :]
    return size


def order_of(places: NDArray[np.int64]) -> NDArray[np.int64]:
    """The order that sorts places, which are all different."""
    low, high = (int(places.min()), int(places.max())) if len(places) else (0, -1)
    if high - low < 4 * len(places):  # most places in between are taken: sort by counting
        rows = np.full(high - low + 1, -1, np.int64)
        rows[places - low] = np.arange(len(places))
        return rows[rows >= 0] if len(rows) > len(places) else rows
    found: Any = _native.order_of(places.view(np.uint64), 1)
    return found  # type: ignore[no-any-return]


def write_in_order(file: ShardFile, given: Sequence[PlacedRecords] | InOrder) -> Iterator[int]:
    """Write records by their places; yields how many bytes each step wrote."""
    if not isinstance(given, InOrder) and _are_in_order(given):
        for records in given:
            file.write(records.data)
            _note(file, records.places, records.lengths, records.labels)
            yield len(records.data)
        return
    ordered = given if isinstance(given, InOrder) else InOrder.of(given)
    _note(file, ordered.places, ordered.lengths, ordered.labels)
    for data in ordered.pieces():
        file.write(data)
        yield len(data)
    if ordered.is_lent and ordered.lie_in_order:
        file.wait_for_hash()


def _are_in_order(given: Sequence[PlacedRecords]) -> bool:
    places = np.concatenate([records.places for records in given])
    is_whole = all(records.lengths.sum() == len(records.data) for records in given)
    return is_whole and bool((places[1:] > places[:-1]).all())


def _note(file: ShardFile, places: Any, lengths: Any, labels: Any) -> None:
    file.places.append(places)
    file.lengths.append(lengths)
    if labels is not None:
        file.labels.append(labels)


def write_beside(path: Path, index: Index, keys: BytesColumn) -> None:
    """Write the index of a shard and the keys of its records."""
    save_index(path, index)
    sync_folder(index_path(path))  # sync the file: a shard is noted as done when all of it is on disk
    with write_whole(keys_path(path)) as file:
        file.write(np.int64(len(keys)).tobytes())
        file.write(np.ascontiguousarray(keys.offsets, np.int64).tobytes())
        file.write(keys.data.tobytes())


def deliver(folder: Path, target: Path, outcome: Outcome, build: str) -> None:
    """Upload a shard and its index, which says that the shard is done, and remove both from this machine.

    Every object costs: the keys are in the index there, and so is the outcome, which a journal has here.
    """
    path, uploaded = folder / outcome.path, target / outcome.path
    refused = Journal(folder).refused_path(outcome.task)
    if refused.exists():
        upload(refused, Journal(target).refused_path(outcome.task))
    status = upload(path, uploaded)
    index = load_index(path)
    assert index is not None, "a shard is written with its index"
    made = ObjectOrigin(build, msgspec.Raw(msgspec.json.encode(outcome)))
    index = replace(index, keys=load_bytes(keys_path(path)), made=made)
    save_index(uploaded, index, tie=msgspec.structs.replace(tie_of(path, index), etag=status.etag))
    for done in (path, index_path(path), keys_path(path)):
        done.unlink()


def read_back(path: Path, records: int) -> None:
    """Read a finished shard and verify every checksum and the count."""
    if records == 0:
        return
    found = 0
    file = open_file(path)
    for chunk in file.chunks():
        bad = _native.verify(chunk.memory, chunk.extents, 1)
        if bad:
            raise FileProblem(path, f"record {chunk.first + bad[0][0]} is not as it was written: is the disk failing?")
        found += len(chunk.extents)
    if found != records:
        raise FileProblem(path, f"{found:,} records were read back of {records:,} written: is the disk failing?")


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
        for data in ordered.pieces():
            write_all(self._file, data)
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
    edges = np.array(map_array(files[f"{stem}.{_EDGES}"])[:, shard : shard + 2])
    if not len(edges) or (edges[:, 0, 0] == edges[:, 1, 0]).all():
        return []
    places, lengths = map_array(files[f"{stem}.{_PLACES}"]), map_array(files[f"{stem}.{_LENGTHS}"])
    labels = map_array(files[f"{stem}.{_LABELS}"]) if f"{stem}.{_LABELS}" in files else None
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


def merge_runs(files: Mapping[str, Path], stems: Iterable[str], shard: int, scratch: Path) -> Iterator[InOrder]:
    """The records of one shard from the runs of all partitions, in planned order, a window of bytes at a time.

    `files` are those of the runs, by name. What is in a store is first copied to a file in `scratch`. The next window
    reuses the memory of what is yielded.
    """
    found = map_reads(lambda stem: _shares(files, stem, shard), stems, next(iter(files.values()), scratch))
    shares = _brought([share for some in found for share in some], scratch / "runs")
    if not shares:
        return
    records = _in_order(shares)
    paths = [os.fsencode(share.path) for share in shares]
    # Where the next record of each share is in its file; and in memory, if all shares lay there one after the other.
    at = np.array([share.first_byte for share in shares])
    sizes = np.array([share.lengths.sum() for share in shares])
    shift = np.cumsum(sizes) - sizes
    for begin, end in pairwise(_windows(records.lengths)):
        window = records.cut(begin, end)
        taken = np.bincount(window.which, window.lengths, len(shares)).astype(np.int64)
        memory = _memory(int(taken.sum()))
        _read_window(paths, at, taken, memory)
        starts = window.starts + (np.cumsum(taken) - taken - shift)[window.which]
        yield window._replace(which=np.zeros_like(starts), starts=starts, data=[memory], is_lent=True)
        at, shift = at + taken, shift + taken


def _in_order(shares: Sequence[_Share]) -> InOrder:
    """The records of all shares in planned order, as if shares lay in memory one after the other."""
    places = np.concatenate([share.places for share in shares])
    lengths = np.concatenate([share.lengths for share in shares])
    labels = [share.labels for share in shares if share.labels is not None]
    order = order_of(places)
    starts = (np.cumsum(lengths) - lengths)[order]
    which = np.repeat(np.arange(len(shares), dtype=np.int32), [len(share.places) for share in shares])[order]
    return InOrder(places[order], which, starts, lengths[order], np.concatenate(labels)[order] if labels else None, [])


def _brought(shares: Sequence[_Share], into: Path) -> list[_Share]:
    """The same shares, with their records in files on this machine."""
    extents = [(share.path, share.first_byte, int(share.lengths.sum())) for share in shares]
    here = zip(shares, fetch_extents(extents, into), strict=True)
    return [replace(share, path=path, first_byte=first) for share, (path, first) in here]


def _memory(size: int) -> NDArray[np.uint8]:
    """Memory for a window: that of the previous one, whose pages need not be cleared again."""
    if size > 2 * WINDOW_BYTES:
        return np.empty(size, np.uint8)
    if not hasattr(_usual, "window"):
        _usual.window = np.empty(2 * WINDOW_BYTES, np.uint8)
    window: NDArray[np.uint8] = _usual.window
    return window[:size]


_usual = threading.local()  # a worker may be a thread


def _windows(lengths: NDArray[np.int64]) -> list[int]:
    """Numbers of records that divide all of them into windows of about the bytes merged at a time."""
    ends = np.cumsum(lengths)
    cuts = np.searchsorted(ends, np.arange(WINDOW_BYTES, int(ends[-1]), WINDOW_BYTES), side="right")
    found: list[int] = np.unique(np.concatenate([[0], cuts, [len(ends)]])).tolist()
    return found


def _read_window(
    paths: Sequence[bytes], offsets: NDArray[np.int64], sizes: NDArray[np.int64], memory: NDArray[np.uint8]
) -> None:
    """What each file holds of the window, one after the other."""
    some = np.flatnonzero(sizes)
    read = [paths[number] for number in some.tolist()]
    failed: Any = _native.read_ranges(read, offsets[some], sizes[some], memory)
    if failed is None:
        return
    number, fault = failed
    path = os.fsdecode(read[number])
    if fault < 0:
        raise FileProblem(path, "ends early: is the disk failing?")
    raise OSError(fault, os.strerror(fault), path)
