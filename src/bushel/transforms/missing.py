"""Missing values: refused, or filled in and marked. NaN counts as missing, like an empty cell of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, Ragged
from bushel.data.samples import Sample
from bushel.errors import BushelError, SchemaMismatch
from bushel.transforms.numbers import Quantiles
from bushel.transforms.protocol import Draw, Fit
from bushel.transforms.scaling import MomentsFit

Value = float | int | str
_DISTINCT = 1 << 20  # distinct values among which the most frequent is searched


class Require(msgspec.Struct, frozen=True, tag="require"):
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


class Fill(msgspec.Struct, frozen=True, tag="fill"):
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
