"""Missing values filled in or refused, and numbers scaled, by statistics of the train split. NaN counts as missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, Ragged
from bushel.data.samples import Sample
from bushel.errors import BushelError, SchemaMismatch
from bushel.transforms.canvas import Canvas
from bushel.transforms.interface import DeclaredTransform, Draw, Draws, Engine, Fit
from bushel.transforms.numbers import (
    Elementwise,
    Floats,
    Quantiles,
    by_position,
    check_width,
    columns_by_position,
    line_up,
)


class Moments(msgspec.Struct, frozen=True):
    """Mean and standard deviation (of the population) of each position; `count` is the smallest number of values."""

    count: int
    mean: tuple[float, ...]
    std: tuple[float, ...]  # 1 if all values are the same


class Standardise(Elementwise, frozen=True, tag="standardise"):
    """(value - mean) / standard deviation, as float32, with mean and deviation of the train split.

    Each position of the last axis has its own (each channel of an image, each sensor of a series); with `each=False`
    they are common to all values. NaN is not counted, and stays NaN.
    """

    engines: ClassVar[tuple[Engine, ...]] = ("sample", "core")
    feature: str
    each: bool = True
    fitted: Moments | None = None

    def change(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Shift and scale the values."""
        assert self.fitted is not None, "a transform is fitted before it is used"
        return np.asarray((values - line_up(self.fitted.mean)) / line_up(self.fitted.std), np.float32)

    def paint(self, canvas: Canvas, draws: Draws) -> bool:  # noqa: ARG002
        """Shift and scale all images of a batch."""
        return self.fitted is not None and canvas.normalise(self.fitted.mean, self.fitted.std)

    def begin_fit(self) -> Fit:
        """Begin to learn mean and deviation."""
        return MomentsFit(self)


class Extent(msgspec.Struct, frozen=True):
    """Smallest and largest value of each position."""

    count: int
    min: tuple[float, ...]
    max: tuple[float, ...]


class MinMax(Elementwise, frozen=True, tag="min_max"):
    """Scale values so that the smallest of the train split becomes `low` and the largest `high`, as float32.

    Values of other splits may fall outside, unless `clip` limits them. `each` is as for `standardise`.
    """

    feature: str
    low: float = 0.0
    high: float = 1.0
    clip: bool = False
    each: bool = True
    fitted: Extent | None = None

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"low must be below high, got {self.low} and {self.high}")

    def change(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Move the values."""
        assert self.fitted is not None, "a transform is fitted before it is used"
        low, high = line_up(self.fitted.min), line_up(self.fitted.max)
        factor = (self.high - self.low) / np.where(high > low, high - low, 1.0)
        moved = (values - low) * factor + self.low
        return np.asarray(np.clip(moved, self.low, self.high) if self.clip else moved, np.float32)

    def begin_fit(self) -> Fit:
        """Begin to learn the extent."""
        return ExtentFit(self)


class Spread(msgspec.Struct, frozen=True):
    """Median, and the distance between two quantiles, of each position; `rank_error` is 0 if they are exact."""

    count: int
    median: tuple[float, ...]
    spread: tuple[float, ...]  # 1 if the quantiles are the same
    rank_error: float = 0.0


class RobustScale(Elementwise, frozen=True, tag="robust_scale"):
    """(value - median) / (distance of the quantiles `low` and `high`), as float32: outliers of train do not matter.

    Quantiles are exact for a million values per position; beyond that, `fitted.rank_error` bounds the share of all
    values by which a rank may be off (0.005% for a billion). `each` is as for `standardise`.
    """

    feature: str
    low: float = 0.25
    high: float = 0.75
    each: bool = True
    fitted: Spread | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= 1:
            raise ValueError(f"low and high must be shares of 0 to 1, the lower first; got {self.low} and {self.high}")

    def change(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Shift and scale the values."""
        assert self.fitted is not None, "a transform is fitted before it is used"
        return np.asarray((values - line_up(self.fitted.median)) / line_up(self.fitted.spread), np.float32)

    def begin_fit(self) -> Fit:
        """Begin to learn the quantiles."""
        return SpreadFit(self)


@dataclass
class _ByPosition:
    """A fit of the values of one feature, one column per position."""

    of: Any

    def add(self, samples: Sequence[Sample]) -> None:
        """Learn from samples."""
        values = by_position(samples, self.of.feature, each=self.of.each)
        if values is not None:
            self.learn(values)

    def add_columns(self, columns: dict[str, Column]) -> None:
        """Learn from columns."""
        values = columns_by_position(columns, self.of.feature, each=self.of.each)
        if values is not None:
            self.learn(values)

    def learn(self, values: Floats) -> None:
        """Learn from values, one column per position."""
        raise NotImplementedError


@dataclass
class MomentsFit(_ByPosition):
    """Counts, means, and sums of squared deviations, of each position."""

    counts: NDArray[np.int64] | None = None
    means: Floats = field(default_factory=lambda: np.empty(0))
    squares: Floats = field(default_factory=lambda: np.empty(0))

    def learn(self, values: Floats) -> None:
        """Learn from the values of one block."""
        is_finite = np.isfinite(values)
        kept = values if is_finite.all() else np.where(is_finite, values, 0.0)
        counts = is_finite.sum(axis=0)
        means = kept.sum(axis=0) / np.maximum(counts, 1)
        apart = np.where(is_finite, kept - means, 0.0)
        # The second term corrects the rounding of the mean; it would be 0 in exact arithmetic.
        squares = (apart**2).sum(axis=0) - apart.sum(axis=0) ** 2 / np.maximum(counts, 1)
        self._take(counts, means, squares)

    def _take(self, counts: Any, means: Floats, squares: Floats) -> None:
        if self.counts is None:
            self.counts, self.means, self.squares = counts, means, squares
            return
        check_width(len(self.counts), len(counts), self.of.feature)
        total = self.counts + counts
        share = counts / np.maximum(total, 1)
        apart = means - self.means
        self.squares = self.squares + squares + apart**2 * self.counts * share
        self.means = self.means + apart * share
        self.counts = total

    def merge(self, other: MomentsFit) -> MomentsFit:
        """Merge two fits."""
        if other.counts is not None:
            self._take(other.counts, other.means, other.squares)
        return self

    def finish(self) -> Any:
        """The transform with mean and deviation; a position whose values are all the same is not scaled."""
        if self.counts is None:
            return msgspec.structs.replace(self.of, fitted=Moments(0, (0.0,), (1.0,)))
        variance = self.squares / np.maximum(self.counts, 1)
        is_same = variance <= _rounding(self.counts, self.means, variance)
        std = np.where(is_same, 1.0, np.sqrt(np.maximum(variance, 0)))
        fitted = Moments(int(self.counts.min()), tuple(self.means.tolist()), tuple(std.tolist()))
        return msgspec.structs.replace(self.of, fitted=fitted)


def _rounding(counts: Any, means: Floats, variance: Floats) -> Floats:
    """The variance that rounding alone can cause if all values are the same (Chan, Golub and LeVeque, 1983)."""
    epsilon = np.finfo(np.float64).eps
    return np.asarray(counts * epsilon * variance + (counts * means * epsilon) ** 2)


@dataclass
class ExtentFit(_ByPosition):
    """The smallest and largest value of each position."""

    count: Any = None
    low: Floats = field(default_factory=lambda: np.empty(0))
    high: Floats = field(default_factory=lambda: np.empty(0))

    def learn(self, values: Floats) -> None:
        """Learn from the values of one block."""
        is_finite = np.isfinite(values)
        low, high = np.where(is_finite, values, np.inf).min(axis=0), np.where(is_finite, values, -np.inf).max(axis=0)
        self._take(is_finite.sum(axis=0), low, high)

    def _take(self, count: Any, low: Floats, high: Floats) -> None:
        if self.count is None:
            self.count, self.low, self.high = count, low, high
            return
        check_width(len(self.count), len(count), self.of.feature)
        self.count = self.count + count
        self.low, self.high = np.minimum(self.low, low), np.maximum(self.high, high)

    def merge(self, other: ExtentFit) -> ExtentFit:
        """Merge two fits."""
        if other.count is not None:
            self._take(other.count, other.low, other.high)
        return self

    def finish(self) -> Any:
        """The transform with the extent."""
        if self.count is None:
            return msgspec.structs.replace(self.of, fitted=Extent(0, (0.0,), (0.0,)))
        low, high = (np.where(self.count > 0, edge, 0.0) for edge in (self.low, self.high))
        fitted = Extent(int(self.count.min()), tuple(low.tolist()), tuple(high.tolist()))
        return msgspec.structs.replace(self.of, fitted=fitted)


@dataclass
class SpreadFit(_ByPosition):
    """The distribution of each position."""

    positions: list[Quantiles] = field(default_factory=list)

    def learn(self, values: Floats) -> None:
        """Learn from the values of one block."""
        if not self.positions:
            self.positions = [Quantiles() for _ in range(values.shape[1])]
        check_width(len(self.positions), values.shape[1], self.of.feature)
        for position, known in enumerate(self.positions):
            known.add(values[:, position])

    def merge(self, other: SpreadFit) -> SpreadFit:
        """Merge two fits."""
        if not self.positions or not other.positions:
            return self if self.positions else other
        check_width(len(self.positions), len(other.positions), self.of.feature)
        self.positions = [mine.merge(theirs) for mine, theirs in zip(self.positions, other.positions, strict=True)]
        return self

    def finish(self) -> Any:
        """The transform with median and spread."""
        known = self.positions or [Quantiles()]
        found = [one.at([self.of.low, 0.5, self.of.high]) for one in known]
        spread = tuple(high - low if high > low else 1.0 for low, _, high in found)
        fitted = Spread(
            min(one.count for one in known),
            tuple(median for _, median, _ in found),
            spread,
            max(one.rank_error for one in known),
        )
        return msgspec.structs.replace(self.of, fitted=fitted)


standardise, min_max, robust_scale = Standardise, MinMax, RobustScale


Value = float | int | str
_DISTINCT = 1 << 20  # distinct values among which the most frequent is searched


class Require(DeclaredTransform, msgspec.Struct, frozen=True, tag="require"):
    """Refuse samples that lack the feature or have NaN in it."""

    feature: str

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Refuse the sample, or leave it as it is."""
        if _is_missing(sample, self.feature):
            raise SchemaMismatch("the value is missing", at=self.feature)
        return sample

    def apply_columns(self, columns: dict[str, Column]) -> dict[str, Column]:
        """Refuse, or leave as it is."""
        if _missing_rows(columns, self.feature).any():
            raise SchemaMismatch("the value is missing", at=self.feature)
        column: Any = columns[self.feature]
        return {**columns, self.feature: column.values if _is_optional_value(column) else column}

    @property
    def always(self) -> tuple[str, ...]:
        """The features that every sample has after it."""
        return (self.feature,)


class Filling(msgspec.Struct, frozen=True):
    """What is filled in."""

    count: int  # values it was learned from
    value: Value
    rank_error: float = 0.0  # of a median that is not exact


class Fill(DeclaredTransform, msgspec.Struct, frozen=True, tag="fill"):
    """Replace missing values by `value`, or by the mean, median or most frequent value of the train split.

    With `indicator`, the feature `FEATURE/missing` is 1 where something was filled in, otherwise 0. It is for features
    of one value; in arrays, each NaN is filled. The median is exact for a million values; see `robust_scale`.
    """

    feature: str
    value: Value | None = None
    by: Literal["mean", "median", "most_frequent"] | None = None
    indicator: bool = False
    fitted: Filling | None = None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.by is None):
            raise ValueError("value or by must be given, and not both")
        if self.by not in (None, "mean", "median", "most_frequent"):
            raise ValueError(f"by must be one of mean, median, most_frequent; got {self.by!r}")

    @property
    def is_given(self) -> bool:
        """Whether the value is given, so that there is nothing to learn."""
        return self.value is not None

    @property
    def always(self) -> tuple[str, ...]:
        """The features that every sample has after it."""
        return (self.feature,)

    @property
    def _filling(self) -> Value:
        assert self.value is not None or self.fitted is not None, "a transform is fitted before it is used"
        return self.value if self.value is not None else self.fitted.value  # type: ignore[union-attr]

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Fill in what is missing."""
        is_missing = _is_missing(sample, self.feature)
        marked = {f"{self.feature}/missing": int(is_missing)} if self.indicator else {}
        value: Any = self._filling
        if (given := sample.get(self.feature)) is not None:
            value = given if isinstance(given, str | bytes) else self._without_nan(np.asarray(given))
        return {**sample, self.feature: value, **marked}

    def apply_columns(self, columns: dict[str, Column]) -> dict[str, Column]:
        """Fill in what is missing in many samples."""
        column, missing = columns[self.feature], _missing_rows(columns, self.feature)
        marked: dict[str, Column] = {f"{self.feature}/missing": missing.astype(np.int64)} if self.indicator else {}
        if isinstance(column, np.ndarray):
            column = self._without_nan(column)
        elif _is_optional_value(column):
            column = self._filled(column)  # type: ignore[arg-type]
        elif isinstance(column, Ragged) and missing.any():
            raise SchemaMismatch("a list that is missing cannot be filled at once", at=self.feature)
        return {**columns, self.feature: column, **marked}

    def _without_nan(self, values: NDArray[Any]) -> NDArray[Any]:
        """Numbers with each NaN filled in; floats if the fill value is one, since other samples may need it."""
        filling = self._filling
        if values.dtype.kind != "f":
            return values.astype(np.float64) if isinstance(filling, float) else values
        is_nan = np.isnan(values)
        return np.where(is_nan, filling, values).astype(values.dtype) if is_nan.any() else values

    def _filled(self, column: Ragged) -> Column:
        assert column.present is not None
        value: Any = self._filling
        if isinstance(column.values, BytesColumn):
            texts = iter(column.values.to_list())
            given = value.encode() if isinstance(value, str) else value
            return BytesColumn.of([next(texts) if there else given for there in column.present])
        assert isinstance(column.values, np.ndarray)
        if isinstance(value, str):
            raise SchemaMismatch(f"numbers cannot be filled with {value!r}", at=self.feature)
        is_whole = column.values.dtype.kind in "biu" and isinstance(value, int)
        out = np.full(len(column), value, column.values.dtype if is_whole else np.float64)
        out[column.present] = column.values
        return np.where(np.isnan(out), value, out) if out.dtype.kind == "f" else out

    def begin_fit(self) -> Fit:
        """Begin to learn what to fill in."""
        return FillFit(self)


@dataclass
class FillFit:
    """What is known about the values that are present."""

    of: Any
    moments: MomentsFit | None = None
    quantiles: Quantiles = field(default_factory=Quantiles)
    counts: Counter[Any] = field(default_factory=Counter)

    def add(self, samples: Sequence[Sample]) -> None:
        """Learn from samples."""
        values = [sample[self.of.feature] for sample in samples if self.of.feature in sample]
        if values and isinstance(values[0], str | bytes):
            self._count([value.encode() if isinstance(value, str) else value for value in values])
        elif values:
            self._learn(np.concatenate([np.asarray(value).reshape(-1) for value in values]))

    def add_columns(self, columns: dict[str, Column]) -> None:
        """Learn from columns."""
        column = columns[self.of.feature]
        values = column.values if isinstance(column, Ragged) else column
        if isinstance(values, BytesColumn):
            self._count(values.to_list())
        elif isinstance(values, np.ndarray) and values.size:
            self._learn(values.reshape(-1))

    def _learn(self, values: NDArray[Any]) -> None:
        if values.dtype.kind not in "biuf":
            raise SchemaMismatch("expected numbers or text", at=self.of.feature)
        if self.of.by == "most_frequent":
            values = values[~np.isnan(values)] if values.dtype.kind == "f" else values
            found, counts = np.unique(values, return_counts=True)
            self._count_all(dict(zip(found.tolist(), counts.tolist(), strict=True)))
        elif self.of.by == "median":
            self.quantiles.add(values.astype(np.float64))
        else:
            fresh = MomentsFit(self.of)
            fresh.learn(values.astype(np.float64).reshape(-1, 1))
            self.moments = fresh if self.moments is None else self.moments.merge(fresh)

    def _count(self, texts: list[bytes]) -> None:
        if self.of.by != "most_frequent":
            raise SchemaMismatch(f"text has no {self.of.by}", at=self.of.feature, help=['by = "most_frequent"'])
        self._count_all(Counter(texts))

    def _count_all(self, counts: dict[Any, int]) -> None:
        self.counts.update(counts)
        if len(self.counts) > _DISTINCT:
            raise BushelError(f"{self.of.feature!r} has more than {_DISTINCT:,} different values, so none is frequent")

    def merge(self, other: FillFit) -> FillFit:
        """Merge two fits."""
        if self.moments is None or other.moments is None:
            self.moments = self.moments or other.moments
        else:
            self.moments = self.moments.merge(other.moments)
        self.quantiles.merge(other.quantiles)
        self._count_all(other.counts)
        return self

    def finish(self) -> Any:
        """The transform with what it fills in."""
        return msgspec.structs.replace(self.of, fitted=self._filling())

    def _filling(self) -> Filling:
        if self.of.by == "most_frequent":
            if not self.counts:
                return Filling(0, 0)
            most = max(self.counts.values())
            value = min(value for value, count in self.counts.items() if count == most)
            return Filling(sum(self.counts.values()), value.decode() if isinstance(value, bytes) else value)
        if self.of.by == "median":
            return Filling(self.quantiles.count, self.quantiles.at([0.5])[0], self.quantiles.rank_error)
        if self.moments is None or self.moments.counts is None:
            return Filling(0, 0.0)
        return Filling(int(self.moments.counts[0]), float(self.moments.means[0]))


def _is_missing(sample: Sample, feature: str) -> bool:
    value = sample.get(feature)
    if value is None:
        return True
    if isinstance(value, str | bytes):
        return False
    array = np.asarray(value)
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def _missing_rows(columns: dict[str, Column], feature: str) -> NDArray[np.bool_]:
    if feature not in columns:
        raise SchemaMismatch("the value is missing", at=feature)
    column = columns[feature]
    missing = np.zeros(len(column), bool)
    values = column.values if isinstance(column, Ragged) else column
    if isinstance(column, Ragged) and column.present is not None:
        missing |= ~column.present
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        is_nan = np.isnan(values.reshape(len(values), -1)).any(axis=1)
        if isinstance(column, Ragged):
            rows = np.repeat(np.arange(len(column)), column.lengths)
            missing[rows[is_nan]] = True
        else:
            missing |= is_nan
    return missing


def _is_optional_value(column: Column) -> bool:
    """Whether each row has one value or none."""
    return isinstance(column, Ragged) and column.present is not None and bool((column.lengths <= 1).all())


fill, require = Fill, Require
