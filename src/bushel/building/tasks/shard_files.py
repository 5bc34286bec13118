"""One shard: records in their planned order, their digests, index and keys."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.building.output.journal import Journal, Outcome
from bushel.building.output.writer import compressor
from bushel.data.columns import BytesColumn
from bushel.data.encoding import FRAMING
from bushel.errors import FileProblem
from bushel.records.files import Compression, open_file
from bushel.records.index import Index, Made, index_path, keys_path, load_index, save_index, tie_of
from bushel.storage import load_bytes, sync_folder, temporary_path, upload, write_whole

__all__ = [
    "PlacedRecords",
    "ShardFile",
    "deliver",
    "order_of",
    "read_back",
    "write_all",
    "write_in_order",
]

_GATHERED = 16 << 20  # bytes put into order at a time
_HASHED_HERE = 1 << 20  # bytes that can be hashed before a thread would have started


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
    which: NDArray[np.int64]  # which of `data` holds each record
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    labels: NDArray[Any] | None
    data: list[Any]

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

    def gather(self, taken: slice = slice(None)) -> Any:
        """The bytes of some of the records."""
        return _native.gather(self.data, self.which[taken], self.starts[taken], self.lengths[taken])


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
        self._written = 0
        self._compress = compressor(self.compression)
        self._of_file = hashlib.sha256()
        self._of_records = self._of_file if self._compress is None else hashlib.sha256()
        self._hashing: threading.Thread | None = None

    def write(self, data: Any) -> None:
        """Write framed records."""
        if self._compress is not None:
            self._of_records.update(data)
            data = self._compress.compress(data)
        self._put(data)

    def _put(self, data: Any) -> None:
        """Write bytes, and let the disk begin with them now rather than at the end."""
        self._hash(data)
        size = write_all(self._file, data)
        if size and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._file.fileno(), self._written, size, os.POSIX_FADV_DONTNEED)
        self._written += size

    def _hash(self, data: Any) -> None:
        """Add bytes to the digest of the file: in a thread if there are many, while they are written."""
        self._wait_for_hash()
        if len(data) < _HASHED_HERE:
            self._of_file.update(data)
            return
        self._hashing = threading.Thread(target=self._of_file.update, args=[data], daemon=True)
        self._hashing.start()

    def _wait_for_hash(self) -> None:
        if self._hashing is not None:
            self._hashing.join()
            self._hashing = None

    def __enter__(self) -> ShardFile:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Give the file its name; after an error, remove it."""
        self._wait_for_hash()
        if kind is not None:
            self._file.close()
            self._temporary.unlink(missing_ok=True)
            return
        if self._compress is not None:
            self._put(self._compress.flush())
            self._wait_for_hash()
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
        return Index(offsets.astype(np.uint64), sizes, self.compression, values, frozenset({"key"}), of_file)


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


def write_in_order(file: ShardFile, given: Sequence[PlacedRecords]) -> Iterator[int]:
    """Write records by their places; yields how many bytes each step wrote."""
    places = np.concatenate([records.places for records in given])
    if (places[1:] > places[:-1]).all() and all(map(_is_whole, given)):
        for records in given:
            file.write(records.data)
            _note(file, records.places, records.lengths, records.labels)
            yield len(records.data)
        return
    ordered = InOrder.of(given)
    _note(file, ordered.places, ordered.lengths, ordered.labels)
    ends = np.cumsum(ordered.lengths)
    begin = 0
    while begin < len(ends):
        done = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + _GATHERED, side="right")))
        data = ordered.gather(slice(begin, end))
        file.write(data)
        yield len(data)
        begin = end


def _is_whole(records: PlacedRecords) -> bool:
    return bool(records.lengths.sum() == len(records.data))


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
    made = Made(build, msgspec.Raw(msgspec.json.encode(outcome)))
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
