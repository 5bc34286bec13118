"""Text and token features, looked at while the records are."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.checking.collect.facts import FileFacts, Place
from bushel.data.columns import BytesColumn
from bushel.data.schema import BYTES_KIND
from bushel.data.splits import train_first
from bushel.records.files import Chunk
from bushel.records.scan import to_column

__all__ = ["TextReader", "Texts"]

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
    """Of the texts of one file: their MinHashes, checksums and places, and the how-manieth text each was."""

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
