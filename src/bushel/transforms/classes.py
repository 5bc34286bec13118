"""Categories as numbers: text or integers to codes, or to vectors of zeros and ones, with a class list that is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.columns import BytesColumn, Column, Ragged, with_missing
from bushel.data.samples import Sample
from bushel.errors import BushelError, MissingName, SchemaMismatch
from bushel.transforms.interface import DeclaredTransform, Draw, Fit

Name = str | int
_MOST_CLASSES = 1 << 20
_FEW = 64  # texts, for which sorting costs more than it saves


class Classes(msgspec.Struct, frozen=True):
    """The classes by code: text by code point, integers by size. `count` is how many values they were learned from."""

    count: int
    names: tuple[Name, ...]


class _Coded(DeclaredTransform, msgspec.Struct, frozen=True):
    """A transform of the categories of one feature, which are given or learned from the train split."""

    def __post_init__(self) -> None:
        _check(self)

    @property
    def is_given(self) -> bool:
        """Whether classes are given, so that there is nothing to learn."""
        return bool(self.classes)  # type: ignore[attr-defined]

    @property
    def names(self) -> tuple[Name, ...]:
        """The classes by code."""
        given: tuple[Name, ...] = self.classes  # type: ignore[attr-defined]
        fitted: Classes | None = self.fitted  # type: ignore[attr-defined]
        assert given or fitted is not None, "a transform is fitted before it is used"
        return given or (fitted.names if fitted else ())

    def begin_fit(self) -> Fit:
        """Begin to learn the classes."""
        return ClassesFit(self)


def _check(transform: Any) -> None:
    if transform.classes and (len({type(name) for name in transform.classes}) > 1):
        raise ValueError(f"classes must be all text or all integers, got {transform.classes}")
    if len(set(transform.classes)) < len(transform.classes):
        raise ValueError(f"classes must differ, got {transform.classes}")
    for name in ("most", "min_count"):
        if (number := getattr(transform, name)) is not None and number < 1:
            raise ValueError(f"{name} must be at least 1, got {number}")


class Encode(_Coded, frozen=True, tag="encode"):
    """Categories as int64 codes from 0 to classes - 1; in lists, each value.

    `most` keeps only the most frequent classes, `min_count` those that occur at least that often in train. A category
    that is not a class is refused; with `unknown="code"` it gets the code after the last class.
    """

    feature: str
    classes: tuple[Name, ...] = ()
    unknown: Literal["refuse", "code"] = "refuse"
    most: int | None = None
    min_count: int = 1
    fitted: Classes | None = None

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Encode the value, or the values."""
        if self.feature not in sample:
            return sample
        value = sample[self.feature]
        codes = _codes(_as_column(value, self.feature), self.names, self.feature, refuse=self.unknown == "refuse")
        return {**sample, self.feature: codes if _is_list(value) else int(codes[0])}

    def apply_columns(self, columns: dict[str, Column]) -> dict[str, Column]:
        """Encode the values of many samples."""
        column = _column(columns, self.feature)
        values = column.values if isinstance(column, Ragged) else column
        codes = _codes(values, self.names, self.feature, refuse=self.unknown == "refuse")
        coded: Column = Ragged(codes, column.row_splits, column.present) if isinstance(column, Ragged) else codes
        return {**columns, self.feature: coded}


class OneHot(_Coded, frozen=True, tag="one_hot"):
    """A category as a vector of int64 with a 1 at its code and 0 elsewhere (one byte per class in the file).

    `most` and `min_count` are as for `encode`. A category that is not a class is refused; with `unknown="zero"` it is
    all zeros.
    """

    feature: str
    classes: tuple[Name, ...] = ()
    unknown: Literal["refuse", "zero"] = "refuse"
    most: int | None = None
    min_count: int = 1
    fitted: Classes | None = None

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Make the vector."""
        if self.feature not in sample:
            return sample
        if _is_list(sample[self.feature]):
            raise SchemaMismatch("one_hot takes one value, got a list", at=self.feature, help=["Use multi_hot."])
        values = _as_column(sample[self.feature], self.feature)
        return {**sample, self.feature: self._vectors(values)[0]}

    def apply_columns(self, columns: dict[str, Column]) -> dict[str, Column]:
        """Make the vectors of many samples."""
        column = _column(columns, self.feature)
        if isinstance(column, Ragged):
            if (column.lengths > 1).any() or column.present is None:
                raise SchemaMismatch("one_hot takes one value, got a list", at=self.feature, help=["Use multi_hot."])
            flat, width = self._vectors(column.values).reshape(-1), len(self.names)
            return {**columns, self.feature: Ragged(flat, column.row_splits * width, column.present)}
        return {**columns, self.feature: self._vectors(column)}

    def _vectors(self, values: Any) -> NDArray[np.int64]:
        codes = _codes(values, self.names, self.feature, refuse=self.unknown == "refuse")
        return np.asarray(codes[:, None] == np.arange(len(self.names)), np.int64)


class MultiHot(_Coded, frozen=True, tag="multi_hot"):
    """A list of categories as a vector of int64: 1 for each class in it, or with `count` how often it occurs, else 0.

    The rest is as for `one_hot`; `separator` splits text such as `red;round` into a list first.
    """

    feature: str
    classes: tuple[Name, ...] = ()
    unknown: Literal["refuse", "zero"] = "refuse"
    most: int | None = None
    min_count: int = 1
    count: bool = False
    separator: str | None = None
    fitted: Classes | None = None

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Make the vector."""
        if self.feature not in sample:
            return sample
        values = _as_column(_parted(sample[self.feature], self.separator), self.feature)
        rows = np.zeros(len(values), np.int64)
        return {**sample, self.feature: self._vectors(values, rows, 1)[0]}

    def apply_columns(self, columns: dict[str, Column]) -> dict[str, Column]:
        """Make the vectors of many samples."""
        column = _column(columns, self.feature)
        if self.separator is not None:
            raise SchemaMismatch("text is parted sample by sample", at=self.feature)
        if not isinstance(column, Ragged):
            flat = column.reshape(-1) if isinstance(column, np.ndarray) else column
            rows = np.repeat(np.arange(len(column)), len(flat) // max(1, len(column)))
            return {**columns, self.feature: self._vectors(flat, rows, len(column))}
        rows = np.repeat(np.arange(len(column)), column.lengths)
        made = self._vectors(column.values, rows, len(column))
        if column.present is None or column.present.all():
            return {**columns, self.feature: made}
        return {**columns, self.feature: with_missing(made[column.present], column.present)}

    def _vectors(self, values: Any, rows: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        codes = _codes(values, self.names, self.feature, refuse=self.unknown == "refuse")
        known = codes < len(self.names)
        out = np.zeros((count, len(self.names)), np.int64)
        np.add.at(out, (rows[known], codes[known]), 1)
        return out if self.count else np.minimum(out, 1)


@dataclass
class ClassesFit:
    """How often each category occurs."""

    of: Any
    counts: Counter[Any] = field(default_factory=Counter)

    def add(self, samples: Sequence[Sample]) -> None:
        """Learn from samples."""
        separator = getattr(self.of, "separator", None)
        values = [_parted(sample[self.of.feature], separator) for sample in samples if self.of.feature in sample]
        for value in values:
            self._count(_as_column(value, self.of.feature))

    def add_columns(self, columns: dict[str, Column]) -> None:
        """Learn from columns."""
        column = _column(columns, self.of.feature)
        separator = getattr(self.of, "separator", None)
        if separator is not None and isinstance(column, BytesColumn):
            for text in column.to_list():
                self._count(_as_column(_parted(text, separator), self.of.feature))
        else:
            self._count(column.values if isinstance(column, Ragged) else column)

    def _count(self, values: Any) -> None:
        if isinstance(values, BytesColumn):
            self.counts.update(values.to_list())
        elif len(values):
            found, counts = np.unique(_integers(values, self.of.feature), return_counts=True)
            self._count_all(dict(zip(found.tolist(), counts.tolist(), strict=True)))
        if len(self.counts) > _MOST_CLASSES:
            raise BushelError(f"{self.of.feature!r} has more than {_MOST_CLASSES:,} values: is it a category?")

    def _count_all(self, counts: dict[Any, int]) -> None:
        for value, count in counts.items():
            self.counts[value] += count

    def merge(self, other: ClassesFit) -> ClassesFit:
        """Merge two fits."""
        self._count_all(other.counts)
        return self

    def finish(self) -> Any:
        """The transform with its classes."""
        kept = [value for value, count in self.counts.items() if count >= self.of.min_count and value != b""]
        if self.of.most is not None:
            kept = sorted(kept, key=lambda value: (-self.counts[value], value))[: self.of.most]
        names = tuple(value.decode() if isinstance(value, bytes) else value for value in sorted(kept))
        fitted = Classes(sum(self.counts.values()), names)
        return msgspec.structs.replace(self.of, fitted=fitted)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _parted(value: Any, separator: str | None) -> Any:
    if separator is None or not isinstance(value, str | bytes):
        return value
    text = value.decode() if isinstance(value, bytes) else value
    return [part.strip() for part in text.split(separator) if part.strip()]


def _as_column(value: Any, feature: str) -> Any:
    """One value, or a list of values, as a column."""
    values = list(np.asarray(value).reshape(-1)) if isinstance(value, np.ndarray) else value
    values = values if isinstance(values, list | tuple) else [values]
    if values and all(isinstance(one, str | bytes) for one in values):
        return BytesColumn.of(values)
    return _integers(np.asarray(values) if values else np.empty(0, np.int64), feature)


def _column(columns: dict[str, Column], feature: str) -> Column:
    if feature not in columns:
        raise MissingName("feature", feature, columns, where="transform")
    return columns[feature]


def _integers(values: Any, feature: str) -> NDArray[np.int64]:
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "biu":
        raise SchemaMismatch("categories must be text or integers", at=feature, help=["Floats: bucketise them first."])
    return values.reshape(-1).astype(np.int64)


@lru_cache(maxsize=64)
def _known(names: tuple[Name, ...]) -> dict[Any, int]:
    return {name.encode() if isinstance(name, str) else name: code for code, name in enumerate(names)}


def _codes(values: Any, names: tuple[Name, ...], feature: str, *, refuse: bool) -> NDArray[np.int64]:
    """The code of each value; the number of classes if it is not a class."""
    known = _known(names)
    if isinstance(values, BytesColumn):
        codes = _text_codes(values, known)
    else:
        distinct, places = np.unique(_integers(values, feature), return_inverse=True)
        found = [known.get(value, len(names)) for value in distinct.tolist()]
        codes = np.array(found, np.int64)[places.reshape(-1)] if found else np.empty(0, np.int64)
    if refuse and (bad := codes == len(names)).any():
        value = values[int(np.argmax(bad))]
        said = value.decode(errors="replace") if isinstance(value, bytes) else int(value)
        raise SchemaMismatch(f"{said!r} is not a class of the train split", at=feature)
    return codes


def _text_codes(values: BytesColumn, known: dict[Any, int]) -> NDArray[np.int64]:
    if len(values) < _FEW:
        return np.array([known.get(text, len(known)) for text in values.to_list()], np.int64)
    # Each text is looked up once; its XXH64 identifies it.
    offsets, data = np.ascontiguousarray(values.offsets, np.int64), np.ascontiguousarray(values.data)
    hashes = np.asarray(_native.hash_column(offsets, data))
    _, firsts, places = np.unique(hashes, return_index=True, return_inverse=True)
    codes = np.array([known.get(values[first], len(known)) for first in firsts.tolist()], np.int64)
    return codes[places.reshape(-1)]


encode, one_hot, multi_hot = Encode, OneHot, MultiHot
