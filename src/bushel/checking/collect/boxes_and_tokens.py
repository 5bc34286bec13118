"""Boxes and tokens: lists of numbers that have to be looked at record by record."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bushel import _native
from bushel.checking.collect.facts import FileFacts, Place
from bushel.data.columns import Ragged
from bushel.records.files import Chunk
from bushel.records.scan import to_column

__all__ = ["Boxes", "ListReader", "find_lists"]

SHOWN = 5
_BOX = re.compile(r"^(.*?(?:/|_)?)(x|y)min$")
_TOKENS = re.compile(r"token|input_ids|word_ids|(?:^|[/_])ids$", re.IGNORECASE)
_BESIDE_TOKENS = re.compile(r"mask|segment|type|position", re.IGNORECASE)  # as BERT has beside its tokens


@dataclass
class Boxes:
    """Boxes whose minimum is not below their maximum."""

    count: int = 0
    examined: int = 0
    places: list[tuple[Place, str]] = field(default_factory=list)


def find_lists(facts: list[dict[str, Any]]) -> tuple[list[tuple[str, str]], list[str]]:
    """Pairs of features that bound boxes, and features that hold tokens."""
    names = {fact["name"] for fact in facts if not fact["sequence"] and not fact["kinds"][1]}
    pairs = [(name, name[:-3] + "max") for name in sorted(names) if _BOX.match(name) and name[:-3] + "max" in names]
    tokens = [
        fact["name"]
        for fact in facts
        if fact["kinds"][3] and fact["max_count"] >= 8 and not fact["sequence"] and _names_tokens(fact["name"])
    ]
    return pairs, tokens


def _names_tokens(name: str) -> bool:
    return bool(_TOKENS.search(name)) and not _BESIDE_TOKENS.search(name)


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
