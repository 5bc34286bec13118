"""Some records as what is compared of them, kept while all are read: contents as numbers, words, and sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.checking.collect.facts import MISSING, FileFacts, Place
from bushel.data.roles import Account
from bushel.data.schema import Schema
from bushel.errors import BushelError
from bushel.pixels.headers import BadImage, parse_header
from bushel.records.files import Chunk
from bushel.records.likeness import COMPARED, blocks_of, numbers_of, scaled
from bushel.records.scan import to_sample

_MOST_WORDS = 400  # of a text
_EVERY = np.iinfo(np.uint64).max


class SampledRecord(NamedTuple):
    """One record: how early it is taken, its label and place, and what it holds."""

    priority: int
    label: int
    place: Place
    numbers: dict[str, NDArray[np.float32]]
    sizes: dict[str, float]  # bytes of a value, width and height of an image
    words: dict[str, frozenset[str]]  # of texts


@dataclass(frozen=True)
class ContentSample:
    """Records with a label, in the order of the files."""

    rows: list[SampledRecord]
    names: list[str]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def labels(self) -> NDArray[np.int64]:
        """Of each record."""
        return np.array([row.label for row in self.rows], np.int64)

    @property
    def files(self) -> NDArray[np.int64]:
        """The number of the file of each record."""
        return np.array([row.place[0] for row in self.rows], np.int64)

    def blocks(self) -> dict[str, NDArray[np.float32]]:
        """A matrix for each feature that can be compared."""
        return blocks_of([row.numbers for row in self.rows], self.names)

    def unique(self) -> ContentSample:
        """Each content with one label once: copies say the same of themselves."""
        blocks = self.blocks()
        if not blocks:
            return self
        whole = np.column_stack([scaled(blocks.values()), self.labels.astype(np.float32)])
        found = np.unique(np.ascontiguousarray(whole).view(np.dtype((np.void, whole.itemsize * whole.shape[1]))))
        if len(found) == len(whole):
            return self
        kept: dict[bytes, SampledRecord] = {}
        for values, row in zip(whole, self.rows, strict=True):
            kept.setdefault(values.tobytes(), row)
        return ContentSample(list(kept.values()), self.names)

    def of_labels(self, labels: Sequence[int]) -> ContentSample:
        """The records that have one of these labels."""
        wanted = set(labels)
        return ContentSample([row for row in self.rows if row.label in wanted], self.names)


@dataclass
class ContentReader:
    """Keeps some records of all: those of the lowest priority, a number that is drawn for each by its place.

    So it does not matter who reads which part of the data, nor in which order.
    """

    features: list[str]
    account: Account
    schema: Schema | None = None
    limit: int = int(_EVERY)  # priorities above it are not looked at: there will be enough below
    kept: list[SampledRecord] = field(default_factory=list)

    def add(self, chunk: Chunk, file: FileFacts, labels: NDArray[np.int64] | None, bad: set[int]) -> None:
        """Take some of the records of a chunk."""
        if labels is None or not self.features:
            return
        priorities = _priorities(file.number, chunk.first + np.arange(len(chunk.extents)))
        for row in np.flatnonzero((priorities <= self.limit) & (labels != MISSING)).tolist():
            if row in bad or (message := _native.parse(chunk.payload(row))) is None:
                continue
            try:
                sample = to_sample(message, self.features, self.schema, self.features)
            except (BushelError, ValueError):  # it does not fit its schema, which other rules say
                continue
            place = (file.number, chunk.first + row)
            self.kept.append(
                SampledRecord(
                    *(int(priorities[row]), int(labels[row]), place),
                    numbers_of(sample, self.features, self.account),
                    _sizes(sample, self.account),
                    _words(sample, self.account),
                )
            )
            if len(self.kept) > 2 * COMPARED:
                self._thin()

    def _thin(self) -> None:
        if len(self.kept) > COMPARED:
            self.kept = sorted(self.kept, key=lambda row: row.priority)[:COMPARED]
            self.limit = self.kept[-1].priority

    def merge(self, other: ContentReader) -> None:
        """Take what was kept of one more file."""
        self.kept += other.kept
        self._thin()

    def result(self) -> ContentSample | None:
        """All that was kept, in the order of the files; None if there is nothing."""
        self._thin()
        return ContentSample(sorted(self.kept, key=lambda row: row.place), self.features) if self.kept else None


def limit_for(records: float) -> int:
    """The priority below which a few more records are than are compared, if there are so many."""
    wanted = 1.25 * COMPARED
    return int(_EVERY) if records <= wanted else int(int(_EVERY) * (wanted / records))


def _priorities(file: int, records: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Numbers that are evenly spread, and always the same for one place (the finaliser of SplitMix64)."""
    mixed = records.astype(np.uint64) + (np.uint64(file + 1) << np.uint64(40))
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    found: NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31))
    return found


def _sizes(sample: Mapping[str, Any], account: Account) -> dict[str, float]:
    """What a file would tell of a value without its content: how large it is."""
    found = {}
    for name, value in sample.items():
        if isinstance(value, bytes) and account.kind_of(name) in ("image", "sound"):
            found[f"bytes of {name}"] = float(len(value))
            try:
                header = parse_header(value)
            except (BadImage, ValueError, IndexError, OverflowError):
                continue
            found |= {f"width of {name}": float(header.width), f"height of {name}": float(header.height)}
    return found


def _words(sample: Mapping[str, Any], account: Account) -> dict[str, frozenset[str]]:
    found = {}
    for name, value in sample.items():
        if account.kind_of(name) == "text" and isinstance(value, str | bytes):
            text = value if isinstance(value, str) else value.decode("utf-8", "replace")
            found[name] = frozenset(text.lower().split()[:_MOST_WORDS])
    return found
