"""Texts, while the records are read: what they look like, and which are nearly the same."""

from __future__ import annotations

import re
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

__all__ = ["TextLook", "TextLooks", "TextReader", "Texts"]

SHOWN = 5
_FIRST = 512  # records of each file that are all looked at
_STEP = 64  # of the later ones, one in so many
_LONGEST = 2_000  # bytes of a text that are looked at

# 12, -1.5, .5e-3, 12,3 and 1.234,56 or 1,234.56; not 02.03.2024, 1.2.3 or 10:30.
_NUMBER = re.compile(
    rb"\s*[-+]?(?:\d+(?:[.,]\d*)?|[.,]\d+|\d{1,3}(?:,\d{3})+(?:\.\d*)?|\d{1,3}(?:\.\d{3})+(?:,\d*)?)(?:[eE][-+]?\d+)?\s*%?\s*"
)
# UTF-8 that was taken for Latin-1 or Windows-1252 and encoded once more, and characters that were lost.
_TWICE = re.compile("[\u00c2\u00c3][\u0080-\u00bf]|\u00e2[\u0080\u20ac][\u0080-\u2122]|\u00ef\u00bb\u00bf|\ufffd")
_PRINTABLE = bytes(range(32, 127)) + b"\t\n\r"


@dataclass
class TextLook:
    """One feature. Places and examples are those of the first few."""

    looked_at: int = 0
    numbers: int = 0
    commas: int = 0  # numbers with a decimal comma
    misread: int = 0
    misread_places: list[Place] = field(default_factory=list)
    misread_as: list[tuple[str, str]] = field(default_factory=list)  # as it is, and as it was meant
    not_utf8: int = 0  # that are text all the same
    example: str = ""

    def merge(self, other: TextLook) -> None:
        """Add what was seen in another file."""
        for name in ("looked_at", "numbers", "commas", "misread", "not_utf8"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.misread_places += other.misread_places[: SHOWN - len(self.misread_places)]
        self.misread_as += other.misread_as[: SHOWN - len(self.misread_as)]
        self.example = self.example or other.example


class TextLooks:
    """Looks at some of the texts of each file."""

    def __init__(self, features: list[str]) -> None:
        self.looks = {name: TextLook() for name in features}

    def add(self, chunk: Chunk, file: FileFacts, bad: set[int]) -> None:
        """Look at some records of a chunk."""
        numbers = range(chunk.first, chunk.first + len(chunk.extents))
        rows = [n - chunk.first for n in numbers if (n < _FIRST or n % _STEP == 0) and n - chunk.first not in bad]
        if not rows or not self.looks:
            return
        wanted = [(name, False, BYTES_KIND) for name in self.looks]
        decoded, _, _ = _native.decode(chunk.memory, chunk.extents[rows].copy(), wanted, False, 1)
        for look, column in zip(self.looks.values(), decoded, strict=True):
            texts = to_column(column) if column["kind"] == BYTES_KIND else None
            for row, text in zip(rows, texts, strict=False) if isinstance(texts, BytesColumn) else ():
                _look_at(look, bytes(text[:_LONGEST]), (file.number, chunk.first + row))

    def merge(self, other: TextLooks) -> None:
        """Add what was seen in one more file."""
        for name, look in other.looks.items():
            self.looks.setdefault(name, TextLook()).merge(look)


def _look_at(look: TextLook, text: bytes, place: Place) -> None:
    if not text:
        return
    look.looked_at += 1
    if _NUMBER.fullmatch(text):
        look.numbers += 1
        look.commas += b"," in text
        return
    if text.isascii():
        return
    try:
        words = text.decode()
    except UnicodeDecodeError as error:
        is_cut = error.start > len(text) - 4 and len(text) == _LONGEST
        if not is_cut and len(text.translate(None, _PRINTABLE)) <= 0.3 * len(text):
            look.not_utf8 += 1
            look.example = look.example or text.decode("latin-1")[:60]
        return
    found = _TWICE.search(words)
    if found and (meant := _meant(words)) is not None:
        look.misread += 1
        if len(look.misread_places) < SHOWN:
            look.misread_places.append(place)
            around = slice(max(0, found.start() - 12), found.end() + 12)
            look.misread_as.append((words[around], meant))


def _meant(words: str) -> str | None:
    """The first words that were misread, as they were meant; None if they may be what they say."""
    if "\ufffd" in words:
        return "characters that are lost"
    for word in words.split():
        if _TWICE.search(word):
            for encoding in ("cp1252", "latin-1"):
                try:
                    return word.encode(encoding).decode()
                except UnicodeError:
                    continue
    return None


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
