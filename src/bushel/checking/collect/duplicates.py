"""Records with the same content, found by a join of hashes that spills to disk."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.splits import train_first
from bushel.parallel import available_cores

__all__ = ["DuplicateFinder", "Duplicates"]

ROW = np.dtype([("hash", "<u8"), ("check", "<u8"), ("label", "<i8"), ("file", "<u4"), ("record", "<u4")])
PARTITIONS = 64
IN_MEMORY = 1 << 20  # rows; beyond it they go to disk
SHOWN = 5

Place = tuple[int, int]


@dataclass
class Duplicates:
    """What the join found. Places are kept of the first few, counts are of all."""

    across: dict[tuple[str, str], int] = field(
        default_factory=dict
    )  # records of the second split that are in the first
    across_places: dict[tuple[str, str], list[tuple[Place, Place]]] = field(default_factory=dict)
    within: dict[str, int] = field(default_factory=dict)  # records beyond the first of each
    within_places: dict[str, list[tuple[Place, Place]]] = field(default_factory=dict)
    conflicts: int = 0  # contents that have more than one label
    conflict_places: list[tuple[Place, Place]] = field(default_factory=list)
    conflict_labels: list[tuple[int, int]] = field(default_factory=list)


class DuplicateFinder:
    """Takes hashes of contents, record by record, and joins them at the end."""

    def __init__(self) -> None:
        self._parts: list[NDArray[Any]] = []
        self._held = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._files: list[IO[bytes]] = []

    def add(self, hashes: NDArray[np.uint64], labels: NDArray[np.int64] | None, *, file: int, first: int) -> None:
        """Take some consecutive records of one file; a hash of 0 stands for none."""
        kept = np.flatnonzero(hashes[:, 0])
        rows = np.empty(len(kept), ROW)
        rows["hash"], rows["check"] = hashes[kept, 0], hashes[kept, 1]
        rows["label"] = 0 if labels is None else labels[kept]
        rows["file"], rows["record"] = file, first + kept
        self.take(rows)

    def take(self, rows: NDArray[Any]) -> None:
        """Take rows that another process made of records."""
        self._parts.append(rows)
        self._held += len(rows)
        if self._held > IN_MEMORY:
            self._spill()

    def taken(self) -> list[NDArray[Any]]:
        """All rows, for another process."""
        rows = list(self._partitions())
        self.close()
        return rows

    def _spill(self) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="bushel-")
            self._files = [(Path(self._folder.name) / str(part)).open("w+b") for part in range(PARTITIONS)]
        rows = np.concatenate(self._parts)
        part_of = (rows["hash"] >> np.uint64(58)).astype(np.intp)
        rows = rows[np.argsort(part_of, kind="stable")]
        ends = np.cumsum(np.bincount(part_of, minlength=PARTITIONS))
        for file, piece in zip(self._files, np.split(rows, ends[:-1]), strict=True):
            file.write(piece.tobytes())
        self._parts, self._held = [], 0

    def finish(self, split_of_file: list[str], *, has_labels: bool) -> Duplicates:
        """Join all that was added."""
        found = Duplicates()
        try:
            for rows in self._partitions():
                _join(rows, split_of_file, found, has_labels=has_labels)
        finally:
            self.close()
        return found

    def close(self) -> None:
        """Remove what went to disk."""
        for file in self._files:
            file.close()
        if self._folder is not None:
            self._folder.cleanup()

    def _partitions(self) -> Any:
        if self._folder is None:
            if self._parts:
                yield np.concatenate(self._parts)
            return
        if self._parts:
            self._spill()
        for file in self._files:
            file.seek(0)
            yield np.frombuffer(file.read(), ROW)


def _join(rows: NDArray[Any], split_of_file: list[str], found: Duplicates, *, has_labels: bool) -> None:
    order: Any = _native.order_of(np.ascontiguousarray(rows["hash"]), available_cores())
    hashes, checks = rows["hash"][order], rows["check"][order]
    same = hashes[1:] == hashes[:-1]
    if (checks[1:][same] != checks[:-1][same]).any():  # other contents with the same hash stand in between
        order = np.lexsort((rows["record"], rows["file"], rows["check"], rows["hash"]))
        hashes, checks = rows["hash"][order], rows["check"][order]
        same = (hashes[1:] == hashes[:-1]) & (checks[1:] == checks[:-1])
    if not same.any():
        return
    starts = np.flatnonzero(same & ~np.concatenate(([False], same[:-1])))
    for start in starts.tolist():
        end = start + 1
        while end < len(same) and same[end]:
            end += 1
        _take_group(rows[order[start : end + 1]], split_of_file, found, has_labels=has_labels)


def _take_group(group: NDArray[Any], split_of_file: list[str], found: Duplicates, *, has_labels: bool) -> None:
    by_split: dict[str, list[Place]] = {}
    for file, record in zip(group["file"].tolist(), group["record"].tolist(), strict=True):
        by_split.setdefault(split_of_file[file], []).append((file, record))
    for split, places in by_split.items():
        if len(places) > 1:
            found.within[split] = found.within.get(split, 0) + len(places) - 1
            _show(found.within_places.setdefault(split, []), (places[0], places[1]))
    order = sorted(by_split, key=train_first)
    for other in order[1:]:
        pair = (order[0], other)
        found.across[pair] = found.across.get(pair, 0) + len(by_split[other])
        _show(found.across_places.setdefault(pair, []), (by_split[order[0]][0], by_split[other][0]))
    if has_labels and len(labels := np.unique(group["label"])) > 1:
        found.conflicts += 1
        other_row = int(np.argmax(group["label"] != group["label"][0]))
        places_of = [(int(group[i]["file"]), int(group[i]["record"])) for i in (0, other_row)]
        _show(found.conflict_places, (places_of[0], places_of[1]))
        _show(found.conflict_labels, (int(labels[0]), int(labels[1])))


def _show(shown: list[Any], item: Any) -> None:
    if len(shown) < SHOWN:
        shown.append(item)
