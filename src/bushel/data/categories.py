"""The distinct values of a column that is listed partition by partition: of labels, groups and splits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.columns import BytesColumn, Column, Ragged
from bushel.errors import SchemaMismatch

__all__ = ["Categories", "hash_values"]

Hashes = NDArray[np.uint64]


def hash_values(values: Any) -> Hashes:
    """XXH64 of each text, or of each number's eight bytes."""
    if isinstance(values, BytesColumn):
        offsets = np.ascontiguousarray(values.offsets, np.int64)
        return np.asarray(_native.hash_column(offsets, np.ascontiguousarray(values.data)))
    numbers = np.ascontiguousarray(values, np.float64 if values.dtype.kind == "f" else np.int64)
    return hash_words(numbers.view(np.uint64), 0)


def hash_words(words: Hashes, seed: int) -> Hashes:
    """XXH64 of the eight little-endian bytes of each word."""
    offsets = np.arange(len(words) + 1, dtype=np.int64) * 8
    return np.asarray(_native.hash_column(offsets, np.ascontiguousarray(words).view(np.uint8), seed))


@dataclass
class Categories:
    """One column over all partitions: each row the hash of its value, each value kept once."""

    name: str
    kind: str = ""  # text, int or float, once a value was seen
    is_list: bool = False
    values: dict[int, Any] = field(default_factory=dict)  # by hash
    _rows: list[Hashes] = field(default_factory=list)
    _present: list[NDArray[np.bool_]] = field(default_factory=list)

    def add(self, column: Column) -> None:
        """Take the column of the next partition."""
        flat, present = self._flat(column)
        if len(flat):
            self._set_kind(flat)
        if self.kind == "float":  # floats are not classes: only whether a value is there matters
            hashes = np.zeros(len(flat), np.uint64)
        else:
            hashes = hash_values(flat)
            self._learn(flat, hashes)
        if self.is_list:
            self._rows.append(np.zeros(len(column), np.uint64))
        else:
            rows = np.zeros(len(column), np.uint64)
            rows[present] = hashes
            self._rows.append(rows)
        self._present.append(present)

    def merge(self, other: Categories) -> None:
        """Take over the rows of the next partitions, and the values that are new."""
        if other.kind:
            self._check_kind(other.kind)
        self.is_list |= other.is_list
        for value_hash, value in other.values.items():
            self.values.setdefault(value_hash, value)
        self._rows += other._rows
        self._present += other._present

    def _flat(self, column: Column) -> tuple[Any, NDArray[np.bool_]]:
        if not isinstance(column, Ragged):
            if isinstance(column, np.ndarray) and column.ndim > 1:
                self.is_list = True
                return column.reshape(-1), np.ones(len(column), bool)
            return column, np.ones(len(column), bool)
        present = np.ones(len(column), bool) if column.present is None else column.present
        if (column.lengths[present] != 1).any() or column.present is None:
            self.is_list = True
        return column.values, np.asarray(present)

    def _set_kind(self, flat: Any) -> None:
        self._check_kind("text" if isinstance(flat, BytesColumn) else "float" if flat.dtype.kind == "f" else "int")

    def _check_kind(self, kind: str) -> None:
        if self.kind not in ("", kind):
            raise SchemaMismatch(f"some values are {self.kind}, others {kind}", at=self.name)
        self.kind = kind

    def _learn(self, flat: Any, hashes: Hashes) -> None:
        for value_hash, first in zip(*(part.tolist() for part in np.unique(hashes, return_index=True)), strict=True):
            if value_hash not in self.values:
                value = flat[first]
                self.values[value_hash] = value if isinstance(value, bytes) else int(value)

    @property
    def hashes(self) -> Hashes:
        """The hash of each row's value; 0 where it is missing."""
        if len(self._rows) > 1:
            self._rows = [np.concatenate(self._rows)]
        return self._rows[0] if self._rows else np.empty(0, np.uint64)

    @property
    def missing(self) -> NDArray[np.int64]:
        """Rows without a value."""
        if len(self._present) > 1:
            self._present = [np.concatenate(self._present)]
        return np.flatnonzero(~self._present[0]) if self._present else np.empty(0, np.int64)

    def forget_rows(self) -> None:
        """Drop the rows, of which there may be many, and keep the values."""
        self._rows, self._present = [], []

    def names(self) -> list[str]:
        """The values in order: text by code point, numbers by size."""
        return [text_of(value) for value in sorted(self.values.values())]

    def codes(self) -> NDArray[np.int32]:
        """For each row the place of its value in `names`, or -1."""
        if self.is_list or self.kind == "float":
            raise SchemaMismatch("there must be one class per row, got lists or floats", at=self.name)
        ordered = sorted(self.values.items(), key=lambda pair: pair[1])
        known = np.array([value_hash for value_hash, _ in ordered], np.uint64)
        by_hash = np.argsort(known)
        hashes = self.hashes
        if not len(known):
            return np.full(len(hashes), -1, np.int32)
        at = np.minimum(np.searchsorted(known[by_hash], hashes), len(known) - 1)
        found = by_hash[at].astype(np.int32)
        found[self.missing] = -1
        return found


def text_of(value: bytes | int) -> str:
    """A value as a manifest names it."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
