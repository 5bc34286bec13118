"""Dates as numbers: their parts, and cycles in which the last day of a year is next to the first."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import Column, Ragged, with_missing
from bushel.data.samples import Sample
from bushel.errors import SchemaMismatch
from bushel.transforms.interface import DeclaredTransform, Draw

DatePart: TypeAlias = Literal["year", "month", "day", "weekday", "hour", "minute", "days"]
Cycle: TypeAlias = Literal["year", "week", "day"]
_DAY = 86_400_000_000  # microseconds
_THURSDAY = 3  # the weekday of 1970-01-01, counted from Monday


class DateParts(DeclaredTransform, msgspec.Struct, frozen=True, tag="date_parts"):
    """Replace a date by numbers: its parts, then sine and cosine of each cycle, in the order given.

    `days` are days since `since`, with a fraction; a weekday is 0 on Monday. All parts are in UTC. A sample without a
    date stays without, or gets NaN for each number with `fill_nan`.
    """

    feature: str
    parts: tuple[DatePart, ...] = ("year", "month", "day", "weekday", "hour")
    cycles: tuple[Cycle, ...] = ()
    since: str = "1970-01-01"
    out: str | None = None
    fill_nan: bool = False

    def __post_init__(self) -> None:
        for name, kind in (("parts", DatePart), ("cycles", Cycle)):
            msgspec.structs.force_setattr(self, name, tuple(getattr(self, name)))
            if wrong := [one for one in getattr(self, name) if one not in get_args(kind)]:
                raise ValueError(f"{name} must be among {', '.join(get_args(kind))}; got {wrong[0]!r}")
        if not self.parts and not self.cycles:
            raise ValueError("parts or cycles must be given")
        try:
            np.datetime64(self.since, "us")
        except ValueError:
            raise ValueError(f"since must be a date such as 2020-01-31, got {self.since!r}") from None

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Replace the date, if the sample has one."""
        if sample.get(self.feature) is None:
            return self._with(sample, self._nothing(1)[0]) if self.fill_nan else sample
        made = self._numbers(np.asarray(sample[self.feature]).reshape(-1))
        return self._with(sample, made[0] if len(made) == 1 else made)

    def apply_columns(self, columns: dict[str, Column]) -> dict[str, Column]:
        """Replace the dates of many samples."""
        column = columns[self.feature]
        if isinstance(column, Ragged) and column.present is not None:
            if not isinstance(column.values, np.ndarray) or (column.lengths[column.present] != 1).any():
                raise SchemaMismatch("lists of dates have no parts", at=self.feature)
            made = self._numbers(column.values.reshape(-1))
            if not self.fill_nan:
                return self._with(columns, with_missing(made, column.present))
            filled = self._nothing(len(column))
            filled[column.present] = made
            return self._with(columns, filled)
        if not isinstance(column, np.ndarray):
            raise SchemaMismatch("a date must be one number per record", at=self.feature)
        return self._with(columns, self._numbers(column.reshape(len(column), -1)[:, 0]))

    def _nothing(self, rows: int) -> NDArray[np.float32]:
        return np.full((rows, len(self.parts) + 2 * len(self.cycles)), np.nan, np.float32)

    def _with(self, values: dict[str, Any], made: Any) -> dict[str, Any]:
        kept = {name: value for name, value in values.items() if name != self.feature or self.out}
        return {**kept, self.out or self.feature: made}

    def _numbers(self, stamps: NDArray[Any]) -> NDArray[np.float32]:
        if stamps.dtype.kind not in "iu":
            raise SchemaMismatch(f"dates are microseconds since 1970, as int64; got {stamps.dtype}", at=self.feature)
        whole = stamps.astype(np.int64)
        found = [self._part(name, whole) for name in self.parts]
        for name in self.cycles:
            angle = 2 * np.pi * _share(name, whole)
            found += [np.sin(angle), np.cos(angle)]
        return np.stack(found, axis=1).astype(np.float32)

    def _part(self, name: DatePart, stamps: NDArray[np.int64]) -> NDArray[Any]:
        if name == "days":
            return np.asarray((stamps - np.datetime64(self.since, "us").astype(np.int64)) / _DAY)
        dates = stamps.astype("datetime64[us]")
        if name == "year":
            return np.asarray(dates.astype("datetime64[Y]").astype(np.int64) + 1970)
        if name == "month":
            return np.asarray(dates.astype("datetime64[M]").astype(np.int64) % 12 + 1)
        if name == "day":
            return np.asarray((dates.astype("datetime64[D]") - dates.astype("datetime64[M]")).astype(np.int64) + 1)
        if name == "weekday":
            return np.asarray((stamps // _DAY + _THURSDAY) % 7)
        return np.asarray(stamps % _DAY // 3_600_000_000 if name == "hour" else stamps // 60_000_000 % 60)


def _share(cycle: Cycle, stamps: NDArray[np.int64]) -> NDArray[Any]:
    """How far each date is through its year, week or day: from 0 to 1."""
    if cycle == "day":
        return np.asarray(stamps % _DAY / _DAY)
    if cycle == "week":
        return np.asarray((stamps + _THURSDAY * _DAY) % (7 * _DAY) / (7 * _DAY))
    years = stamps.astype("datetime64[us]").astype("datetime64[Y]")
    begin, end = (when.astype("datetime64[us]").astype(np.int64) for when in (years, years + 1))
    return np.asarray((stamps - begin) / (end - begin))


date_parts = DateParts
