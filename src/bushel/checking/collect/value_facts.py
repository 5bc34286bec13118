"""What is kept of values while records are read: boxes, tokens, how texts look, and some records as rows."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.checking.collect.facts import MISSING, FileFacts, Place
from bushel.data.categories import hash_words
from bushel.data.columns import BytesColumn, Ragged
from bushel.data.roles import Account
from bushel.data.schema import BYTES_KIND
from bushel.parallel import map_in_threads
from bushel.records.files import Chunk
from bushel.records.scan import to_column

MAX_ROWS = 20_000
MAX_WIDTH = 256  # values of a row
_WIDEST = 64  # values of one feature
_FEW = 0.02  # different records among all: there are not many to be had
_NEAR_WIDTH = 24  # up to which records that differ in two values are counted


@dataclass
class RowSample:
    """Rows of numbers. Short texts stand as hashes: equal or not is all that their numbers say."""

    features: list[str]  # of each column
    positions: list[int]  # of each column within its feature; -1 where the feature is one value
    is_number: NDArray[np.bool_]
    values: NDArray[np.float64]
    labels: NDArray[np.int64]
    files: NDArray[np.int64]
    records: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.values)

    def some(self, rows: NDArray[np.int64]) -> RowSample:
        """Some of the rows."""
        arrays = (self.values[rows], self.labels[rows], self.files[rows], self.records[rows])
        return RowSample(self.features, self.positions, self.is_number, *arrays)

    def unique(self) -> RowSample:
        """Each record once."""
        whole = np.column_stack([np.nan_to_num(self.values), self.labels])
        hashed = hash_words(whole.view(np.uint64).ravel(), 0, threads=1).reshape(whole.shape)
        return self.some(np.sort(np.unique(hashed @ _weights(whole.shape[1]).view(np.uint64), return_index=True)[1]))

    def place(self, row: int) -> Place:
        """Where a row comes from."""
        return int(self.files[row]), int(self.records[row])

    def columns(self, *, without: Set[str] = frozenset(), numbers: bool = False) -> NDArray[np.intp]:
        """Numbers of columns; constant ones say nothing and are left out."""
        varies = np.ptp(np.nan_to_num(self.values), axis=0) > 0 if len(self) else np.zeros(len(self.features), bool)
        wanted = np.array([name not in without for name in self.features], bool)
        return np.flatnonzero(wanted & varies & (self.is_number if numbers else True))

    def name(self, column: int) -> str:
        """A column in words."""
        return (
            f"{self.features[column]}[{self.positions[column]}]"
            if self.positions[column] >= 0
            else self.features[column]
        )

    def repeats_by_chance(self, without: Set[str]) -> bool:
        """Whether records agree in everything no oftener than records that just miss it would let expect.

        Values of few kinds repeat by themselves. Then far more records differ in one or two values than in none;
        among copies it is the other way round.
        """
        columns = self.columns(without=without)
        if not len(columns):
            return True
        rows = _ranked(self.values[:, columns])
        parts = (rows.T + 1) * _weights(len(columns))[:, None]  # wraps around, as hashes do
        whole = parts.sum(axis=0)
        same, distinct = _pairs(whole)
        if distinct < _FEW * len(whole):
            return True
        left_out: list[tuple[int, ...]] = [(i,) for i in range(len(columns))]
        if 2 < len(columns) <= _NEAR_WIDTH:  # of two, nothing is left to agree in
            left_out += combinations(range(len(columns)), 2)

        def pairs_without(some: tuple[int, ...]) -> int:
            return _pairs(whole - parts[[*some]].sum(axis=0))[0] - same

        near = sum(count for _, count in map_in_threads(pairs_without, left_out))
        if len(columns) > _NEAR_WIDTH:
            near += int(50 * _pairs_of_independent(rows))
        return near >= max(same, 1)


def _ranked(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Equal values as equal numbers from 0 on, column by column."""
    filled = np.where(np.isnan(values), np.inf, values)
    return np.stack([np.unique(column, return_inverse=True)[1] for column in filled.T], axis=1).astype(np.int64)


def _weights(count: int) -> NDArray[np.int64]:
    """Odd numbers by which the hashes of columns are added up."""
    return np.random.default_rng(7).integers(1, 1 << 62, count, dtype=np.int64) | 1


def _pairs(hashes: NDArray[np.int64]) -> tuple[int, int]:
    """How many pairs of rows have the same hash, and how many hashes there are."""
    ordered = np.sort(hashes)
    edges = np.flatnonzero(ordered[1:] != ordered[:-1])
    if len(edges) == len(ordered) - 1:  # all differ, as they mostly do
        return 0, len(ordered)
    counts = np.diff(edges, prepend=-1, append=len(ordered) - 1)
    return int((counts * (counts - 1) // 2).sum()), len(counts)


def _pairs_of_independent(rows: NDArray[np.int64]) -> float:
    """How many pairs would agree if columns had nothing to do with each other."""
    agree = [float(((np.bincount(column) / len(column)) ** 2).sum()) for column in rows.T]
    return float(np.exp(np.log(agree).sum())) * len(rows) * (len(rows) - 1) / 2


def sampled_features(facts: list[dict[str, Any]], label: str | None) -> dict[str, int]:
    """The features that rows are made of, and how many values each has."""
    found: dict[str, int] = {}
    for fact in facts:
        width = fact["max_count"] if fact["min_count"] == fact["max_count"] else 0
        is_short = width == 1 and fact["max_size"] < 16 if fact["kinds"][BYTES_KIND] else 0 < width <= _WIDEST
        if not fact["sequence"] and fact["name"] != label and is_short and sum(found.values()) + width <= MAX_WIDTH:
            found[fact["name"]] = width
    return found


@dataclass
class RowReader:
    """Keeps one in so many record of each file, so that no more than `MAX_ROWS` are kept of all."""

    features: dict[str, int]
    stride: int = 1
    kept: list[tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = field(
        default_factory=list
    )
    texts: set[str] = field(default_factory=set)

    def add(self, chunk: Chunk, file: FileFacts, labels: NDArray[np.int64] | None, bad: set[int]) -> None:
        """Take some of the records of a chunk. What is missing, infinite or of another width is NaN."""
        rows = np.arange(-chunk.first % self.stride, len(chunk.extents), self.stride)
        rows = rows[~np.isin(rows, list(bad))] if bad else rows
        if not len(rows) or not self.features:
            return
        values, texts = _native.matrix(chunk.memory, chunk.extents[rows], list(self.features.items()))
        self.texts |= {name for name, is_text in zip(self.features, texts.tolist(), strict=True) if is_text}
        label = labels[rows] if labels is not None else np.full(len(rows), MISSING)
        self.kept.append((values, label, np.full(len(rows), file.number), chunk.first + rows))
        self._thin()

    def _thin(self) -> None:
        while sum(len(part[0]) for part in self.kept) > MAX_ROWS:
            self.kept = _every(2 * self.stride, self)
            self.stride *= 2

    def merge(self, other: RowReader) -> None:
        """Take what was kept of one more file."""
        stride = max(self.stride, other.stride)
        mine, theirs = (_every(stride, reader) for reader in (self, other))
        self.stride, self.kept = stride, mine + theirs
        self.texts |= other.texts
        self._thin()

    def result(self) -> RowSample | None:
        """All rows; None if there are none."""
        if not self.kept:
            return None
        features = [name for name, width in self.features.items() for _ in range(width)]
        positions = [at if width > 1 else -1 for width in self.features.values() for at in range(width)]
        values, labels, files, records = (np.concatenate(arrays) for arrays in zip(*self.kept, strict=True))
        return RowSample(
            features, positions, np.array([name not in self.texts for name in features]), values, labels, files, records
        )


def _every(stride: int, reader: RowReader) -> list[Any]:
    """What a reader keeps, of one in so many records."""
    if stride == reader.stride:
        return reader.kept
    return [tuple(array[part[3] % stride == 0] for array in part) for part in reader.kept]


SHOWN = 5
_BOX = re.compile(r"^(.*?(?:/|_)?)(x|y)min$")


@dataclass
class Boxes:
    """Boxes whose minimum is not below their maximum."""

    count: int = 0
    examined: int = 0
    places: list[tuple[Place, str]] = field(default_factory=list)


def find_lists(facts: list[dict[str, Any]], account: Account) -> tuple[list[tuple[str, str]], list[str]]:
    """Pairs of features that bound boxes, and features that hold tokens."""
    held = account.of("tokens")
    names = {fact["name"] for fact in facts if not fact["sequence"] and not fact["kinds"][1]}
    pairs = [(name, name[:-3] + "max") for name in sorted(names) if _BOX.match(name) and name[:-3] + "max" in names]
    tokens = [
        fact["name"]
        for fact in facts
        if fact["kinds"][3] and fact["max_count"] >= 8 and not fact["sequence"] and fact["name"] in held
    ]
    return pairs, tokens


class ListReader:
    """Looks at the boxes and tokens of chunks."""

    def __init__(self, pairs: list[tuple[str, str]], tokens: list[str]) -> None:
        self.pairs = pairs
        self.token_names = tokens
        self.boxes = Boxes()
        self.tokens: dict[str, dict[str, int]] = {}

    def add(self, chunk: Chunk, file: FileFacts) -> None:
        """Take some records."""
        names = [name for pair in self.pairs for name in pair] + self.token_names
        found, _, _ = _native.decode(chunk.memory, chunk.extents, [(name, False, 0) for name in names], False, 1)
        columns = dict(zip(names, map(to_column, found), strict=True))
        for low, high in self.pairs:
            self._take_boxes(columns[low], columns[high], low, (file.number, chunk.first))
        for name in self.token_names:
            self._take_tokens(name, columns[name])

    def merge(self, other: ListReader) -> None:
        """Take what was seen of one more file."""
        self.boxes.count += other.boxes.count
        self.boxes.examined += other.boxes.examined
        self.boxes.places += other.boxes.places[: SHOWN - len(self.boxes.places)]
        for name, theirs in other.tokens.items():
            mine = self.tokens.setdefault(name, dict.fromkeys(theirs, 0))
            for what, count in theirs.items():
                if what == "width":
                    mine[what] = max(mine[what], count)
                elif what == "same_token":
                    mine[what] = count or mine[what]
                else:
                    mine[what] += count

    def _take_boxes(self, low: Any, high: Any, name: str, first: Place) -> None:
        lows, rows = _flat(low)
        highs, other_rows = _flat(high)
        if len(lows) != len(highs) or not np.array_equal(rows, other_rows):
            return
        self.boxes.examined += len(lows)
        bad = np.flatnonzero(lows >= highs)
        self.boxes.count += len(bad)
        for row in rows[bad][: SHOWN - len(self.boxes.places)].tolist():
            self.boxes.places.append(((first[0], first[1] + row), name))

    def _take_tokens(self, name: str, column: Any) -> None:
        values, rows = _flat(column)
        if not len(values) or values.dtype.kind != "i":
            return
        seen = self.tokens.setdefault(
            name,
            dict.fromkeys(("rows", "all_same", "same_token", "full", "padded", "shorter", "inner_zeros", "width"), 0),
        )
        starts = np.flatnonzero(np.concatenate(([True], np.diff(rows) != 0)))
        lengths = np.diff(np.append(starts, len(values)))
        ends = starts + lengths - 1
        widest = int(lengths.max())
        seen["width"] = max(seen["width"], widest)
        seen["rows"] += len(starts)
        is_padded = values[ends] == 0
        seen["padded"] += int(is_padded.sum())
        seen["shorter"] += int((lengths < seen["width"]).sum())
        seen["full"] += int(((lengths == seen["width"]) & ~is_padded).sum())
        position = np.arange(len(values))
        last = np.maximum.reduceat(np.where(values != 0, position, -1), starts)
        inner = (values == 0) & (position < np.repeat(last, lengths))
        seen["inner_zeros"] += int(np.logical_or.reduceat(inner, starts).sum())
        low = np.minimum.reduceat(np.where(values == 0, np.iinfo(np.int64).max, values), starts)
        high = np.maximum.reduceat(values, starts)
        same = (low == high) & (np.add.reduceat((values != 0).astype(np.int64), starts) >= 3)
        seen["all_same"] += int(same.sum())
        if same.any():
            seen["same_token"] = int(high[same][0])


def _flat(column: Any) -> tuple[Any, Any]:
    """All values, and the row that each is of."""
    if isinstance(column, Ragged):
        return np.asarray(column.values), np.repeat(np.arange(len(column)), column.lengths)
    array = np.asarray(column)
    width = int(array.size // len(array)) if len(array) else 0
    return array.reshape(-1), np.repeat(np.arange(len(array)), width)


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
        if not self.looks:
            return
        count = len(chunk.extents)
        first = min(max(0, _FIRST - chunk.first), count)  # rows that are all looked at
        later = np.arange(first + -(chunk.first + first) % _STEP, count, _STEP)
        rows = np.concatenate([np.arange(first), later])
        rows = rows[~np.isin(rows, list(bad))] if bad else rows
        if not len(rows):
            return
        wanted = [(name, False, BYTES_KIND) for name in self.looks]
        decoded, _, _ = _native.decode(chunk.memory, chunk.extents[rows], wanted, False, 1)
        for look, column in zip(self.looks.values(), decoded, strict=True):
            texts = to_column(column) if column["kind"] == BYTES_KIND else None
            if isinstance(texts, BytesColumn):
                _look_at_all(look, texts, rows, (file.number, chunk.first))

    def merge(self, other: TextLooks) -> None:
        """Add what was seen in one more file."""
        for name, look in other.looks.items():
            self.looks.setdefault(name, TextLook()).merge(look)


def _look_at_all(look: TextLook, texts: BytesColumn, rows: NDArray[np.int64], first: Place) -> None:
    """Look at the texts of some rows. Most hold only ASCII and no digit: they are words, and only counted."""
    offsets, data = texts.offsets, texts.data
    look.looked_at += int(np.count_nonzero(offsets[1:] > offsets[:-1]))
    used = data[offsets[0] : offsets[-1]]
    telling = (used >= 0x80) | ((used >= ord("0")) & (used <= ord("9")))
    if not telling.any():
        return
    before = np.concatenate(([0], np.cumsum(telling)))[offsets - offsets[0]]
    for at in np.flatnonzero(before[1:] > before[:-1]).tolist():
        _look_at(look, bytes(texts[at][:_LONGEST]), (first[0], first[1] + int(rows[at])))


def _look_at(look: TextLook, text: bytes, place: Place) -> None:
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
