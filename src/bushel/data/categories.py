"""Categories: the distinct values of a column, and the label, whose classes they may be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.columns import BytesColumn, Column, Pile, Ragged, cut, in_steps, roomy
from bushel.data.schema import Feature
from bushel.errors import SchemaMismatch
from bushel.parallel import available_cores

Hashes = NDArray[np.uint64]
_MANY_ROWS = 1 << 20  # that are taken at a time
_FEW_CLASSES = 20  # distinct integers up to which they are classes
_RECORDS_PER_CLASS = 5  # in the mean, at least
_LOOKED_AT, _FEW_VALUES = 1024, 32  # rows that show whether a column has few values


def hash_values(values: Any) -> Hashes:
    """XXH64 of each text, or of the eight bytes of each number."""
    if isinstance(values, BytesColumn):
        offsets, data = np.ascontiguousarray(values.offsets, np.int64), np.ascontiguousarray(values.data)
        hashes = roomy(len(values), np.uint64)

        def hash_some(some: slice) -> None:
            hashes[some] = _native.hash_column(offsets[some.start : some.stop + 1], data, 0, 1)

        in_steps(len(values), hash_some)
        return hashes
    numbers = np.ascontiguousarray(values, np.float64 if values.dtype.kind == "f" else np.int64)
    # Few rows are of one of many partitions, which are listed in threads.
    return hash_words(numbers.view(np.uint64), 0, threads=None if len(numbers) >= _MANY_ROWS else 1)


def hash_words(words: Hashes, seed: int, *, threads: int | None = None) -> Hashes:
    """XXH64 of the eight little-endian bytes of each word."""
    return np.asarray(_native.hash_words(np.ascontiguousarray(words), seed, threads or available_cores()))


@dataclass
class Categories:
    """One column over all partitions: a hash per row, and each distinct value once."""

    name: str
    kind: str = ""  # text, int or float; None before the first value
    is_list: bool = False
    values: dict[int, Any] = field(default_factory=dict)  # by hash
    _rows: Pile = field(default_factory=lambda: Pile(np.uint64))
    _present: Pile = field(default_factory=lambda: Pile(bool))

    def add(self, column: Column) -> None:
        """Take the column of the next partition."""
        if len(column) > _MANY_ROWS:  # a part at a time: the way there takes several times its memory
            for begin in range(0, len(column), _MANY_ROWS):
                self.add(cut(column, begin, min(begin + _MANY_ROWS, len(column))))
            return
        flat, present = self._flat(column)
        if len(flat):
            self._set_kind(flat)
        if self.kind == "float":  # floats are not classes: it only matters whether a value is present
            hashes = np.zeros(len(flat), np.uint64)
        else:
            hashes = hash_values(flat)
            self._learn(flat, hashes)
        if not self.is_list and present.all():
            rows = hashes
        else:
            rows = np.zeros(len(column), np.uint64)
            if not self.is_list:
                rows[present] = hashes
        self._rows.add(rows)
        self._present.add(present)

    def merge(self, other: Categories) -> None:
        """Take over the rows of the next partitions, and the values that are new."""
        if other.kind:
            self._check_kind(other.kind)
        self.is_list |= other.is_list
        for value_hash, value in other.values.items():
            self.values.setdefault(value_hash, value)
        self._rows.extend(other._rows)
        self._present.extend(other._present)

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
        firsts = _firsts(hashes[:_LOOKED_AT])
        if len(firsts) <= _FEW_VALUES:  # only what is not among them is sorted
            others = np.flatnonzero(~np.isin(hashes, hashes[firsts]))
            firsts = np.concatenate([firsts, others[_firsts(hashes[others])]])
        else:
            firsts = _firsts(hashes)
        for value_hash, first in zip(hashes[firsts].tolist(), firsts.tolist(), strict=True):
            if value_hash not in self.values:
                value = flat[first]
                self.values[value_hash] = value if isinstance(value, bytes) else int(value)

    @property
    def hashes(self) -> Hashes:
        """The hash of each row's value; 0 where it is missing."""
        return self._rows.whole()

    @property
    def missing(self) -> NDArray[np.int64]:
        """Rows without a value."""
        return np.flatnonzero(~self._present.whole())

    def forget_rows(self) -> None:
        """Drop the rows, which may be many, and keep the values."""
        self._rows, self._present = Pile(np.uint64), Pile(bool)

    def names(self) -> list[str]:
        """The values in order: text by code point, numbers by size."""
        return [text_of(value) for value in sorted(self.values.values())]

    def codes(self) -> NDArray[np.int32]:
        """The place of each row's value in `names`, or -1."""
        if self.is_list or self.kind == "float":
            raise SchemaMismatch("there must be one class per row, got lists or floats", at=self.name)
        ordered = sorted(self.values.items(), key=lambda pair: pair[1])
        known = np.array([value_hash for value_hash, _ in ordered], np.uint64)
        by_hash = np.argsort(known)
        hashes = self.hashes
        if not len(known):
            return np.full(len(hashes), -1, np.int32)
        found, known, codes = roomy(len(hashes), np.int32), known[by_hash], by_hash.astype(np.int32)

        def look_up(span: slice) -> None:
            np.take(codes, np.searchsorted(known, hashes[span]), out=found[span], mode="clip")

        in_steps(len(hashes), look_up)
        found[self.missing] = -1
        return found


def _firsts(hashes: Hashes) -> NDArray[np.int64]:
    """Where each hash comes first."""
    return np.unique(hashes, return_index=True)[1]


def text_of(value: bytes | int) -> str:
    """A value as it is named in a manifest."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


Task = Literal["classification", "multi_label", "regression"]
UNKNOWN = -1


class Label(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The label of a dataset."""

    feature: str
    task: Task
    names: list[str] = []  # of classes, by code; empty if labels were integers already
    class_weights: dict[str, float] = {}  # of the train split: records / (classes * records of the class)


@dataclass(frozen=True)
class Labels:
    """The label of a build. `names` are the class names by code; empty if labels are numbers already."""

    feature: str
    task: Task
    names: list[str] = field(default_factory=list)
    is_text: bool = False

    @cached_property
    def _known(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        hashes = hash_values(BytesColumn.of(self.names))
        order = np.argsort(hashes)
        return hashes[order], order.astype(np.int64)

    def encode(self, column: Column) -> Column:
        """Text as codes, -1 for an unknown class; numbers as they are."""
        if isinstance(column, Ragged) and isinstance(column.values, BytesColumn):
            codes = self._codes(column.values)
            return Ragged(codes, column.row_splits, column.present)
        if isinstance(column, BytesColumn) and self.is_text:
            return self._codes(column)
        return column

    def _codes(self, texts: BytesColumn) -> NDArray[np.int64]:
        known, order = self._known
        hashes = hash_values(texts)
        if not len(known):
            return np.full(len(hashes), UNKNOWN, np.int64)
        at = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
        return np.where(known[at] == hashes, order[at], UNKNOWN)

    def stored(self, feature: Feature) -> Feature:
        """The feature as records hold it."""
        shape = (None,) if self.task == "multi_label" and feature.shape == () else feature.shape
        if self.is_text:
            return Feature(dtype="int64", shape=shape)
        return Feature(dtype=feature.dtype, shape=shape, encoding=feature.encoding, cast=feature.cast)

    def name_of(self, value: int) -> str:
        """A class as it is named in a manifest."""
        return self.names[value] if self.names else str(value)

    def described(self, counts: dict[str, int]) -> Label:
        """The label for the manifest; `counts` are those of the train split."""
        total = sum(counts.values())
        seen = {name: count for name, count in counts.items() if count}
        weights = {name: total / (len(seen) * count) for name, count in seen.items()}
        return Label(feature=self.feature, task=self.task, names=self.names, class_weights=weights)


def labels_of(categories: Categories, frozen: Label | None = None) -> Labels:
    """The label that the values of a column make; new classes come after those of the dataset that is extended."""
    if categories.is_list:
        task: Task = "multi_label"
    else:
        task = "regression" if categories.kind == "float" else "classification"
    if categories.kind != "text":
        return Labels(categories.name, task)
    names = list(frozen.names) if frozen else []
    known = set(names)
    texts = sorted(value for value in categories.values.values() if value)
    names += [name for name in map(text_of, texts) if name not in known]
    return Labels(categories.name, task, names, is_text=True)


def count_labels(labels: Labels, values: NDArray[Any]) -> dict[str, int]:
    """How many samples each class has, by its name."""
    found, counts = np.unique(values, return_counts=True)
    return {labels.name_of(int(value)): int(count) for value, count in zip(found, counts, strict=True)}


def are_classes(values: NDArray[Any], counts: NDArray[Any]) -> bool:
    """Whether distinct integers are class codes: few, or dense from 0 or 1 and not distributed like a measurement."""
    if len(values) <= _FEW_CLASSES:
        return True
    return _is_dense(values) and len(values) <= counts.sum() // 4 and not _is_hill(counts)


def look_like_numbers(counts: Mapping[int, int]) -> bool:
    """Whether integer labels are measurements beyond doubt, such as ages or prices; `counts` are by value.

    Codes with gaps, or codes that begin anywhere, may still be classes: `check` reports what is wrong with them.
    """
    values = np.array(sorted(counts))
    each = np.array([counts[value] for value in values.tolist()])
    if are_classes(values, each):
        return False
    return _is_hill(each) or (not _is_dense(values) and len(values) * _RECORDS_PER_CLASS > int(each.sum()))


def are_numbers(label: Label | Labels | None, counts: Mapping[str, Mapping[str, int]]) -> bool:
    """Whether an integer label looks like numbers, given the samples of each value in each split."""
    if label is None or label.task != "classification" or label.names:
        return False
    total: Counter[str] = Counter()
    for split in counts.values():
        total.update(split)
    return bool(total) and look_like_numbers({int(name): count for name, count in total.items()})


def _is_dense(values: NDArray[Any]) -> bool:
    return bool(values[0] in (0, 1) and len(values) >= 0.8 * (values[-1] - values[0] + 1))


def _is_hill(counts: NDArray[Any]) -> bool:
    """Whether neighbouring values are similarly frequent, and those in the middle most, as with ages."""
    smooth = np.convolve(counts, np.ones(3) / 3, mode="valid")
    top = float(smooth.max())
    is_uneven = counts.std() > 0.5 * counts.mean()
    is_inner = smooth[0] < 0.5 * top and smooth[-1] < 0.5 * top
    return bool(is_uneven and is_inner and np.corrcoef(counts[:-1], counts[1:])[0, 1] > 0.5)
