"""Records with the same content, found by a join of hashes that spills to disk, and texts that are nearly the same."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.checking.collect.facts import FileFacts, Place
from bushel.data.columns import BytesColumn
from bushel.data.schema import BYTES_KIND
from bushel.data.splits import train_first
from bushel.parallel import Ahead, available_cores
from bushel.records.files import Chunk
from bushel.records.scan import to_column

ROW = np.dtype([("hash", "<u8"), ("check", "<u8"), ("label", "<i8"), ("file", "<u4"), ("record", "<u4")])
PARTITIONS = 64
IN_MEMORY = 1 << 23  # rows of 32 bytes; beyond it they go to disk
JOINED_AT_ONCE = 1 << 22  # rows, which take about 100 bytes each
_MANY = 1 << 14  # rows that are worth a run of their own
_SORTED_AT_ONCE = 1 << 18  # rows
SHOWN = 5


@dataclass
class Duplicates:
    """What the join found. Places are kept of the first few, in the order of the files; counts are of all."""

    across: dict[tuple[str, str], int] = field(
        default_factory=dict
    )  # records of the second split that are in the first
    across_places: dict[tuple[str, str], list[tuple[Place, Place]]] = field(default_factory=dict)
    within: dict[str, int] = field(default_factory=dict)  # records beyond the first of each
    within_places: dict[str, list[tuple[Place, Place]]] = field(default_factory=dict)
    conflicts: int = 0  # contents that have more than one label
    conflict_places: list[tuple[tuple[Place, Place], tuple[int, int]]] = field(default_factory=list)  # and labels

    def merge(self, other: Duplicates) -> None:
        """Add what was found among other contents."""
        for pair, count in other.across.items():
            self.across[pair] = self.across.get(pair, 0) + count
            _show(self.across_places.setdefault(pair, []), other.across_places[pair])
        for split, count in other.within.items():
            self.within[split] = self.within.get(split, 0) + count
            _show(self.within_places.setdefault(split, []), other.within_places[split])
        self.conflicts += other.conflicts
        _show(self.conflict_places, other.conflict_places)

    def in_order(self) -> Duplicates:
        """The same with splits in order: contents come in that of their hashes, which says nothing."""
        within = {split: self.within[split] for split in sorted(self.within, key=train_first)}
        pairs = sorted(self.across, key=lambda pair: (train_first(pair[0]), train_first(pair[1])))
        return replace(self, within=within, across={pair: self.across[pair] for pair in pairs})


class SortedRun(NamedTuple):
    """Rows in the order in which they came, but sorted by partition; and how many each partition has."""

    rows: NDArray[Any]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, rows: NDArray[Any]) -> SortedRun:
        """Sort them."""
        partitions = (rows["hash"] >> np.uint64(58)).astype(np.uint8)  # bytes are sorted by counting
        return cls(rows[np.argsort(partitions, kind="stable")], np.bincount(partitions, minlength=PARTITIONS))

    def split(self) -> list[NDArray[Any]]:
        """The rows of each partition."""
        ends = np.cumsum(self.counts).tolist()
        return [self.rows[end - count : end] for end, count in zip(ends, self.counts.tolist(), strict=True)]


class DuplicateFinder:
    """Takes hashes of contents, record by record, and joins them at the end."""

    def __init__(self) -> None:
        self._runs: list[SortedRun] = []
        self._loose: list[NDArray[Any]] = []  # what came after them
        self._held = self._held_loose = self._taken = 0  # rows
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._files: list[IO[bytes]] = []

    def add(self, hashes: NDArray[np.uint64], labels: NDArray[np.int64] | None, *, file: int, first: int) -> None:
        """Take some consecutive records of one file; a hash of 0 stands for none."""
        known = np.empty(0, np.int64) if labels is None else np.ascontiguousarray(labels)
        rows, counts = _native.contents(np.ascontiguousarray(hashes), known, file, first)
        if rows is not None:
            self.take(SortedRun(rows.view(ROW), counts))

    def take(self, run: SortedRun) -> None:
        """Take rows that another worker made of records."""
        if len(run.rows) < _MANY:
            self._take_loose(run.rows)
        else:
            self._sort_loose()
            self._runs.append(run)
        self._count(len(run.rows))

    def _take_loose(self, rows: NDArray[Any]) -> None:
        self._loose.append(rows)
        self._held_loose += len(rows)
        if self._held_loose >= _SORTED_AT_ONCE:
            self._sort_loose()

    def _sort_loose(self) -> None:
        if self._loose:
            self._runs.append(SortedRun.of(np.concatenate(self._loose)))
        self._loose, self._held_loose = [], 0

    def _count(self, rows: int) -> None:
        self._held += rows
        self._taken += rows
        if self._held > IN_MEMORY:
            self._spill()

    def taken(self) -> list[SortedRun]:
        """All rows, for another process, which then need not sort them by partition."""
        if self._folder is None:
            self._sort_loose()
            return self._runs
        runs = [SortedRun.of(rows) for load in self._partitions() for rows in load()]
        self.close()
        return runs

    def _spill(self) -> None:
        self._sort_loose()
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="bushel-")
            self._files = [(Path(self._folder.name) / str(part)).open("w+b") for part in range(PARTITIONS)]
        for run in self._runs:
            for file, rows in zip(self._files, run.split(), strict=True):
                file.write(np.ascontiguousarray(rows).data)
        self._runs, self._held = [], 0

    def finish(self, split_of_file: list[str], *, has_labels: bool) -> Duplicates:
        """Join all that was added."""
        found = Duplicates()
        threads = max(1, min(available_cores(), JOINED_AT_ONCE * PARTITIONS // max(1, self._taken)))

        def join(load: Callable[[], list[NDArray[Any]]]) -> Duplicates:
            return _join(load(), split_of_file, has_labels=has_labels)

        try:
            with Ahead(join, self._partitions(), threads=threads, ahead=2 * threads) as joined:
                for some in joined:
                    found.merge(some)
        finally:
            self.close()
        return found.in_order()

    def close(self) -> None:
        """Remove what went to disk."""
        for file in self._files:
            file.close()
        if self._folder is not None:
            self._folder.cleanup()

    def _partitions(self) -> Iterator[Callable[[], list[NDArray[Any]]]]:
        """How to load the rows of each of them, in order; few rows are one partition."""
        if self._folder is not None:
            self._spill()
            yield from (partial(_load, file) for file in self._files)
            return
        self._sort_loose()
        if self._taken < _MANY:
            parts = [[run.rows for run in self._runs]] if self._runs else []
        else:
            parts = list(map(list, zip(*(run.split() for run in self._runs), strict=True)))
        yield from (partial(list, pieces) for pieces in parts)


def _load(file: IO[bytes]) -> list[NDArray[Any]]:
    file.seek(0)
    return [np.frombuffer(file.read(), ROW)]


def _join(pieces: list[NDArray[Any]], split_of_file: list[str], *, has_labels: bool) -> Duplicates:
    found = Duplicates()
    hashes = np.concatenate([rows["hash"] for rows in pieces])
    hashes.sort()
    is_repeated = hashes[1:] == hashes[:-1]
    if not is_repeated.any():  # as it should be
        return found
    repeated, rows = np.unique(hashes[1:][is_repeated]), np.concatenate(pieces)
    if 8 * len(repeated) < len(rows):
        rows = rows[np.isin(rows["hash"], repeated)]
    order = np.argsort(rows["hash"], kind="stable")
    hashes, checks = rows["hash"][order], rows["check"][order]
    same = hashes[1:] == hashes[:-1]
    if (checks[1:][same] != checks[:-1][same]).any():  # other contents with the same hash stand in between
        order = np.lexsort((rows["record"], rows["file"], rows["check"], rows["hash"]))
        hashes, checks = rows["hash"][order], rows["check"][order]
        same = (hashes[1:] == hashes[:-1]) & (checks[1:] == checks[:-1])
    if not same.any():
        return found
    starts = np.flatnonzero(same & ~np.concatenate(([False], same[:-1])))
    for start in starts.tolist():
        end = start + 1
        while end < len(same) and same[end]:
            end += 1
        _take_group(rows[order[start : end + 1]], split_of_file, found, has_labels=has_labels)
    return found


def _take_group(group: NDArray[Any], split_of_file: list[str], found: Duplicates, *, has_labels: bool) -> None:
    by_split: dict[str, list[Place]] = {}
    for file, record in zip(group["file"].tolist(), group["record"].tolist(), strict=True):
        by_split.setdefault(split_of_file[file], []).append((file, record))
    for split, places in by_split.items():
        if len(places) > 1:
            found.within[split] = found.within.get(split, 0) + len(places) - 1
            _show(found.within_places.setdefault(split, []), [(places[0], places[1])])
    order = sorted(by_split, key=train_first)
    for other in order[1:]:
        pair = (order[0], other)
        found.across[pair] = found.across.get(pair, 0) + len(by_split[other])
        _show(found.across_places.setdefault(pair, []), [(by_split[order[0]][0], by_split[other][0])])
    if has_labels and len(labels := np.unique(group["label"])) > 1:
        found.conflicts += 1
        other_row = int(np.argmax(group["label"] != group["label"][0]))
        places_of = [(int(group[i]["file"]), int(group[i]["record"])) for i in (0, other_row)]
        _show(found.conflict_places, [((places_of[0], places_of[1]), (int(labels[0]), int(labels[1])))])


def _show(shown: list[Any], more: Sequence[Any]) -> None:
    shown[:] = sorted([*shown, *more])[:SHOWN]


MAX_TEXTS = 100_000  # of each split that are compared for nearness
HASHES = 32
BANDS = 8
SHINGLE = 3  # words
MIN_SHINGLES = 6
NEAR = 0.85
MAX_BUCKET = 200

_random = np.random.default_rng(20_240_229)
_A = _random.integers(1, 1 << 31, HASHES, dtype=np.uint64) | np.uint64(1)
_B = _random.integers(0, 1 << 31, HASHES, dtype=np.uint64)


@dataclass
class Texts:
    """Texts of two splits that are nearly the same, by pairs of splits."""

    compared: int = 0
    near: dict[tuple[str, str], list[tuple[Place, Place, float]]] = field(default_factory=dict)


@dataclass
class Signatures:
    """Of the texts of one file: their MinHashes, checksums and places, and the number of each text."""

    hashes: list[NDArray[np.uint32]] = field(default_factory=list)
    exact: list[int] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    seen: int = 0


class TextReader:
    """Keeps a MinHash signature of each text, and joins them at the end."""

    def __init__(self, features: list[str]) -> None:
        self.features = features
        self._signatures: list[NDArray[np.uint32]] = []
        self._exact: list[int] = []
        self._places: list[Place] = []
        self._numbers: list[int] = []  # of each, among the texts of its split
        self._kept: dict[str, int] = {}

    def add(self, chunk: Chunk, file: FileFacts, bad: set[int]) -> None:
        """Take the texts of some records."""
        room = MAX_TEXTS - self._kept.get(file.split, 0)
        if room <= 0:
            return
        wanted = [(name, False, BYTES_KIND) for name in self.features[:1]]
        columns, _, _ = _native.decode(chunk.memory, chunk.extents[:room], wanted, False, 1)
        column = to_column(columns[0]) if columns[0]["kind"] == BYTES_KIND else None
        if not isinstance(column, BytesColumn):
            return
        before = self._kept.get(file.split, 0)
        self._kept[file.split] = before + len(column)
        for row, text in enumerate(column):
            if row in bad or (signature := _signature(text)) is None:
                continue
            self._signatures.append(signature)
            self._exact.append(zlib.crc32(text))
            self._places.append((file.number, chunk.first + row))
            self._numbers.append(before + row)

    def taken(self) -> Signatures:
        """What was taken of one file, for another process."""
        return Signatures(self._signatures, self._exact, self._places, self._numbers, sum(self._kept.values()))

    def merge(self, other: Signatures, split: str) -> None:
        """Take the texts of one more file of a split, as many as there is room for."""
        room = MAX_TEXTS - self._kept.get(split, 0)
        kept = [at for at, number in enumerate(other.numbers) if number < room]
        self._signatures += [other.hashes[at] for at in kept]
        self._exact += [other.exact[at] for at in kept]
        self._places += [other.places[at] for at in kept]
        self._kept[split] = self._kept.get(split, 0) + min(room, other.seen)

    def result(self, files: list[FileFacts]) -> Texts:
        """Join what was taken."""
        splits = [files[number].split for number, _ in self._places]
        texts = Texts(compared=len(self._places))
        if len(set(splits)) < 2:
            return texts
        signatures = np.stack(self._signatures)
        seen: set[tuple[int, int]] = set()
        for i, j in _candidates(signatures, splits):
            if (i, j) in seen or self._exact[i] == self._exact[j]:
                continue
            seen.add((i, j))
            likeness = float((signatures[i] == signatures[j]).mean())
            if likeness >= NEAR:
                pair = (self._places[i], self._places[j], likeness)
                texts.near.setdefault((splits[i], splits[j]), []).append(pair)
        return texts


def _signature(text: bytes) -> NDArray[np.uint32] | None:
    words = text.lower().split()
    shingles = {zlib.crc32(b" ".join(words[i : i + SHINGLE])) for i in range(len(words) - SHINGLE + 1)}
    if len(shingles) < MIN_SHINGLES:
        return None
    hashed = np.fromiter(shingles, np.uint64, len(shingles))
    mixed: NDArray[Any] = (hashed[None, :] * _A[:, None] + _B[:, None]) >> np.uint64(16)
    return np.asarray(mixed.astype(np.uint32).min(axis=1))


def _candidates(signatures: NDArray[np.uint32], splits: list[str]) -> Iterator[tuple[int, int]]:
    rows = HASHES // BANDS
    for band in range(BANDS):
        piece = np.ascontiguousarray(signatures[:, band * rows : (band + 1) * rows])
        keys = piece.view(np.dtype((np.void, piece.dtype.itemsize * rows))).ravel()
        _, inverse = np.unique(keys, return_inverse=True)
        order = np.argsort(inverse, kind="stable")
        for bucket in np.split(order, np.flatnonzero(np.diff(inverse[order])) + 1):
            if 1 < len(bucket) <= MAX_BUCKET:
                ranked = sorted(bucket.tolist(), key=lambda i: (train_first(splits[i]), i))
                yield from ((i, j) for a, i in enumerate(ranked) for j in ranked[a + 1 :] if splits[i] != splits[j])
