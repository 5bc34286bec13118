"""Windows of sensor series: tables with a time column, and one series per file or per value of a column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, is_spooled, load_columns, spool_columns, take, with_missing
from bushel.data.schema import Feature, Schema
from bushel.data.splits import as_split, named_shares, shares_of_one
from bushel.errors import BushelError, FileProblem, MissingName, quantity
from bushel.parallel import Helpers
from bushel.sources.protocol import (
    Block,
    Listing,
    Reads,
    Refused,
    Source,
    as_given,
    check_values,
    fingerprint_of,
    recipe_table,
)
from bushel.sources.series_rows import (
    NO_LABEL,
    OUTSIDE,
    Cleaning,
    Duplicates,
    Gap,
    Missing,
    Names,
    Outside,
    Resample,
    SeriesRows,
    clean_rows,
    collect_rows,
    holds_dates,
)
from bushel.sources.tables.readings import MissingValues
from bushel.sources.tables.table import Format, TableSource, table
from bushel.storage import AnyPath

__all__ = ["SeriesSource", "labels_over", "series", "time_cuts", "when", "window_keys", "windows_at"]

_CHUNK = 1 << 22  # values processed at a time


def windows_at(array: NDArray[Any], first: NDArray[np.int64], length: int) -> NDArray[Any]:
    """The rows of the windows that begin at `first`."""
    return np.asarray(array[first[:, None] + np.arange(length)])


def when(time: Any, *, are_dates: bool) -> str:
    """A time as people write it."""
    if not are_dates:
        return repr(time.item())
    text = str(np.datetime64(int(time), "us"))
    return text.rstrip("0").rstrip(".") if "." in text else text


def window_keys(rows: SeriesRows, first: NDArray[np.int64]) -> list[bytes]:
    """The series and the time at which the window begins, so that rows added later change no key."""
    names = rows.series_names
    times = rows.times[first]
    return [
        names[code] + (b"@" if names[code] else b"") + when(time, are_dates=rows.are_dates).encode()
        for code, time in zip(rows.series[first].tolist(), times, strict=True)
    ]


def labels_over(labels: NDArray[Any], first: NDArray[np.int64], length: int, *, is_mean: bool) -> NDArray[Any]:
    """The most common label of each window (the lower one of two), or the mean."""
    out = np.empty(len(first), np.float64 if is_mean else labels.dtype)
    step = max(1, _CHUNK // length)
    for begin in range(0, len(first), step):
        windows = windows_at(labels, first[begin : begin + step], length)
        found = windows.mean(axis=1) if is_mean else _most_common(windows)
        out[begin : begin + step] = found
    return out


def _most_common(windows: NDArray[Any]) -> NDArray[Any]:
    missing = np.isnan(windows) if windows.dtype.kind == "f" else windows == NO_LABEL
    values, codes = np.unique(windows, return_inverse=True)
    codes = codes.reshape(windows.shape)
    counts = np.zeros((len(windows), len(values)), np.int64)
    np.add.at(counts, (np.arange(len(windows))[:, None], codes), ~missing)
    found = values[np.argmax(counts, axis=1)]
    nothing: Any = np.nan if windows.dtype.kind == "f" else NO_LABEL
    return np.asarray(np.where(counts.max(axis=1) > 0, found, nothing))


def time_cuts(
    given: str | Mapping[str, Any], rows: SeriesRows, first: NDArray[np.int64]
) -> tuple[list[str], NDArray[Any]]:
    """Names of splits in order of time, and the times at which each after the first begins."""
    named = named_shares(given, "time_split")
    names, values = list(named), list(named.values())
    if any(isinstance(value, str) for value in values):
        return names, np.array([_until(value, rows) for value in values[:-1]], rows.times.dtype)
    named = {name: Fraction(str(value)) for name, value in named.items()}
    shares = list(shares_of_one(named, given, "time_split").values())
    ordered = np.sort(rows.times[first])
    at = [int(sum(shares[: i + 1], Fraction(0)) * len(ordered)) for i in range(len(shares) - 1)]
    return names, ordered[np.minimum(at, len(ordered) - 1)]


def _until(value: Any, rows: SeriesRows) -> Any:
    try:
        return np.datetime64(value, "us").astype(np.int64) if rows.are_dates else float(value)
    except (ValueError, TypeError):
        raise ValueError(f"time_split must say until when a split is, got {value!r}") from None


LabelFrom: TypeAlias = Literal["last", "majority", "mean", "all"]
AHEAD = "/ahead"  # behind the name of a column: its values after the window
_BLOCK_BYTES = 4 << 20


def series(
    paths: AnyPath | Iterable[AnyPath],
    *,
    time: Annotated[str, "Column of times: numbers, or dates"],
    length: Annotated[int, "Rows per window"],
    stride: Annotated[int | None, "Rows or frames from one window or clip to the next (default: its length)"] = None,
    series: Annotated[str | None, "Column that identifies the series (default: each file is one)"] = None,
    columns: Annotated[Sequence[str] | None, "Columns of sensors (default: all numbers)"] = None,
    label: Annotated[str | None, "Column of the label"] = None,
    label_from: Annotated[LabelFrom, "How the label of a window follows from its rows (all: with horizon)"] = "last",
    horizon: Annotated[int | None, "Rows after the window that the label is taken from: a forecast"] = None,
    every: Annotated[float | None, "Resample to even times, this many seconds apart (default: keep the times)"] = None,
    resample: Annotated[Resample, "How to resample"] = "linear",
    gap: Annotated[float | Gap, "Longest step within a window, in seconds (auto: 10 times the median)"] = "auto",
    duplicates: Annotated[Duplicates, "Which of several rows with the same time to take"] = "first",
    missing: Annotated[Missing | float, "How to fill missing values"] = "refuse",
    ranges: Annotated[Mapping[str, Sequence[float]] | None, "Lowest and highest value of sensors"] = None,
    outside: Annotated[Outside, "What to do with values outside of `ranges`"] = "refuse",
    time_split: Annotated[str | Mapping[str, Any] | None, "Split by time: shares, or until when each split is"] = None,
    stack: Annotated[bool, "Store all sensors as one array"] = True,
    times: Annotated[bool, "Store the time of each row"] = False,
    format: Annotated[Format | None, "Format of the files (default: found from their bytes and names)"] = None,
    encoding: Annotated[str | None, "Text encoding (default: UTF-8, or as the byte order mark says)"] = None,
    delimiter: Annotated[str | None, "Character between the values of a row (default: found)"] = None,
    missing_values: MissingValues = None,
    helpers: Helpers = None,
) -> SeriesSource:
    """Take a sample from each window of `length` rows of a series, a window every `stride` rows.

    `time` is the column of times: numbers, or dates such as 2024-03-01T12:00:00. `series` is the column that names the
    series; without it each file is one. `columns` are the sensors: all columns of numbers, if not given. SeriesRows are
    put in order; those with the time of another are left out; no window spans a gap (`gap`: a longer step than this;
    "auto" is ten times the median). `every` resamples to even times. Windows with missing values, or values outside of
    `ranges` (`{"temperature": [-40, 125]}`), are refused, unless `missing` and `outside` say otherwise.

    With `horizon`, the label comes from this many rows after the window: the last of them, or as `label_from` says;
    "all" stores each of them. It is called `COLUMN/ahead`, and the column itself is a sensor, too, if it holds numbers.
    The only sensor is its own label.

    Splits are drawn by series, never by window. `time_split` ("80/10/10", or until when each split is) splits by time
    instead, and leaves out windows that would be in two.
    """
    arguments = locals()
    check_values(_SERIES, arguments)
    how = Cleaning(gap, every, resample, duplicates, missing, _ranges(ranges or {}), outside)
    _check(length, stride, how, horizon)
    if label_from == "all" and horizon is None:
        raise ValueError("label_from must be 'last', 'majority' or 'mean' without horizon, got 'all'")
    given = as_given(paths)
    rows = table(
        given,
        format=format,
        encoding=encoding,
        delimiter=delimiter,
        missing_values=missing_values,
        helpers=helpers,
    )
    names = _names(rows, time, series, columns, label, is_forecast=horizon is not None)
    recipe = recipe_table(_SERIES, given, arguments | {"ranges": how.ranges}, first=("time", "length"))
    cut = _Cut(length, stride or length, label_from, time_split if time_split else None, stack, times, horizon or 0)
    return SeriesSource(rows, names, how, cut, recipe)


_SERIES = series  # the option of that name hides it inside the function


def _ranges(given: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, float]]:
    for name, ends in given.items():
        if not isinstance(ends, Sequence) or len(ends) != 2 or not ends[0] < ends[1]:
            raise ValueError(f"ranges[{name!r}] must be the lowest and the highest value, got {ends!r}")
    return {name: (float(ends[0]), float(ends[1])) for name, ends in given.items()}


def _check(length: int, stride: int | None, how: Cleaning, horizon: int | None) -> None:
    for name, number in (("length", length), ("stride", stride), ("horizon", horizon)):
        if number is not None and number < 1:
            raise ValueError(f"{name} must be at least 1, got {number}")
    if how.every is not None and not how.every > 0:
        raise ValueError(f"every must be above 0, got {how.every}")
    if not isinstance(how.gap, str) and not how.gap > 0:
        raise ValueError(f"gap must be above 0, got {how.gap!r}")


def _names(
    rows: TableSource, time: str, series: str | None, columns: Any, label: str | None, *, is_forecast: bool
) -> Names:
    """The role of each column. What is forecast is a sensor, too, if it holds numbers: its past is known."""
    features = rows.schema()
    label = label or ("label" if "label" in features else None)
    for name in (time, series, label, *(columns or ())):
        if name is not None and name not in features:
            raise MissingName("column", name, features, where=rows.files[0])
    split = "split" if "split" in features and columns is None else None
    others = [
        name
        for name, feature in features.features.items()
        if _is_number(feature) and name not in (time, series, split) and (name != label or is_forecast)
    ]
    sensors = tuple(columns if columns is not None else others)
    if not sensors:
        raise FileProblem(rows.files[0], "no column of numbers is left for the sensors")
    if is_forecast and label is None:
        if len(sensors) > 1:
            raise FileProblem(
                rows.files[0],
                f"horizon needs the column to forecast, and there are {len(sensors)}: {', '.join(sensors[:6])}",
                help=[f"Name one: --label {sensors[0]}"],
            )
        label = sensors[0]
    return Names(time, series, sensors, label, split)


def _is_number(feature: Feature) -> bool:
    return feature.dtype in ("int64", "float32") and feature.shape == () and not feature.meaning


@dataclass(frozen=True)
class _Cut:
    """How rows become samples."""

    length: int
    stride: int
    label_from: LabelFrom
    time_split: str | Mapping[str, Any] | None
    stack: bool
    times: bool
    horizon: int = 0  # rows after a window that its label is of

    @property
    def span(self) -> int:
        """Rows that a window and its label need."""
        return self.length + self.horizon


def _each_or_none(windows: NDArray[Any]) -> Column:
    """Rows of numbers; missing where one of them is."""
    there = ~np.isnan(windows).any(axis=1)
    return windows if there.all() else with_missing(windows[there], there)


class SeriesSource(Source):
    """Windows of series; reads at random, in one partition. Rows are read once, when the source is listed."""

    reads: Reads = "random"
    group = "series"

    def __init__(self, table: TableSource, names: Names, how: Cleaning, cut: _Cut, recipe: dict[str, Any]) -> None:
        for name in how.ranges:
            if name not in names.sensors:
                raise MissingName("sensor", name, names.sensors, where="ranges")
        self.table: TableSource | None = table
        self.names = names
        self.how = how
        self.cut = cut
        self.recipe = recipe
        self.label_feature = table.schema()[names.label] if names.label else None
        self.are_dates = holds_dates(table.schema()[names.time])
        self.counted: dict[str, int] = {}
        self.print = fingerprint_of(table.files, recipe)
        self.where = table.files[0]
        self.spooled: Path | None = None

    @property
    def label(self) -> str | None:
        """The label's feature: a column, or what follows it."""
        return f"{self.names.label}{AHEAD}" if self.names.label and self.cut.horizon else self.names.label

    @property
    def split(self) -> str | None:
        """`split`, if times or a column give splits."""
        return "split" if self.cut.time_split is not None or self.names.split else None

    @cached_property
    def data(self) -> dict[str, Any]:
        """Rows and windows as arrays. In another process, mapped from the spooled files."""
        if self.table is None:
            assert self.spooled is not None
            return load_columns(self.spooled)
        rows = clean_rows(collect_rows(self.table, self.names), self.names, self.how)
        return self._cut_windows(rows)

    def _cut_windows(self, rows: SeriesRows) -> dict[str, Any]:
        length, stride = self.cut.span, self.cut.stride
        counted = dict(rows.counted)
        starts = [
            np.arange(begin, end - length + 1, stride)
            for begin, end in zip(rows.stretches, rows.stretches[1:], strict=False)
        ]
        first = np.concatenate([np.empty(0, np.int64), *starts]).astype(np.int64)
        used = sum(len(part) and int(part[-1]) + length - int(part[0]) for part in starts) if stride <= length else 0
        if stride <= length and len(rows.times) > used:
            counted["rows at the end of a stretch that fill no window"] = len(rows.times) - used
        if not len(first):
            longest = int(np.diff(rows.stretches).max())
            wanted = f"{length} rows{self._with_horizon()}"
            raise BushelError(
                f"{self.where}: no window of {wanted} fits: the longest stretch without a gap has {longest}",
                help=[f"Found: {', '.join(f'{count:,} {what}' for what, count in counted.items())}"] if counted else [],
            )
        splits, keep = self._splits(rows, first)
        if splits is not None and not keep.all():
            counted["windows that would be in two splits, left out"] = int((~keep).sum())
            first, splits = first[keep], splits.take(np.flatnonzero(keep))
        codes = rows.series[first]
        made: dict[str, Any] = {
            "first": first,
            "times": rows.times,
            "values": rows.values,
            "faults": rows.faults,
            "series": BytesColumn.of(rows.series_names).take(codes),
            "keys": BytesColumn.of(window_keys(rows, first)),
        }
        if splits is not None:
            made["split"] = splits
        if rows.labels is not None:
            made["label"] = self._labels(rows, first)
        if self.cut.horizon:
            counted[f"windows whose label is {self._forecast()}"] = len(first)
        self.counted = counted
        return made

    def _forecast(self) -> str:
        """What the label of a window is, in words."""
        rows = quantity(self.cut.horizon, "row")
        return {
            "last": f"{self.names.label!r} {rows} later",
            "mean": f"the mean of {self.names.label!r} over the next {rows}",
            "majority": f"the most common {self.names.label!r} of the next {rows}",
            "all": f"{self.names.label!r} of each of the next {rows}",
        }[self.cut.label_from]

    def _with_horizon(self) -> str:
        return f" ({self.cut.length} and a horizon of {self.cut.horizon})" if self.cut.horizon else ""

    def _values_to_forecast(self, rows: SeriesRows) -> NDArray[Any]:
        """The column of the label: of a sensor, as it was cleaned; NaN where it is faulty."""
        assert rows.labels is not None
        assert self.names.label is not None
        if not self.cut.horizon or self.names.label not in self.names.sensors:
            return rows.labels
        sensor = self.names.sensors.index(self.names.label)
        is_faulty = (rows.faults > 0) & (rows.faults // 4 == sensor)
        return np.where(is_faulty, np.nan, np.asarray(rows.values[:, sensor], np.float64))

    def _labels(self, rows: SeriesRows, first: NDArray[np.int64]) -> Column:
        """One label per window; missing if its rows have none."""
        assert rows.labels is not None
        assert self.label_feature is not None
        is_text = self.label_feature.dtype == "str"
        how, values_of = self.cut.label_from, self._values_to_forecast(rows)
        if is_text and how in ("mean", "all"):
            raise ValueError("label_from must be 'last' or 'majority': the label is text")
        begin, length = (first + self.cut.length, self.cut.horizon) if self.cut.horizon else (first, self.cut.length)
        if how == "all":
            return _each_or_none(windows_at(values_of, begin, length))
        found = values_of[begin + length - 1]
        if how != "last":
            found = labels_over(values_of, begin, length, is_mean=how == "mean")
        there = found != NO_LABEL if is_text else ~np.isnan(found)
        values: Column
        if is_text:
            values = BytesColumn.of(rows.label_names).take(found[there])
        else:
            is_whole = self.label_feature.dtype == "int64" and self.cut.label_from != "mean"
            values = found[there].astype(np.int64 if is_whole else np.float64)
        if there.all():
            return values
        return with_missing(values, there)

    def _splits(self, rows: SeriesRows, first: NDArray[np.int64]) -> tuple[BytesColumn | None, NDArray[np.bool_]]:
        last = first + self.cut.span - 1
        if self.cut.time_split is not None:
            names, cuts = time_cuts(self.cut.time_split, rows, first)
            begin, end = (np.searchsorted(cuts, rows.times[at], "right") for at in (first, last))
            return BytesColumn.of(names).take(begin), begin == end
        if rows.splits is None:
            return None, np.ones(len(first), bool)
        windows = windows_at(rows.splits, first, self.cut.span)
        same = (windows == windows[:, :1]).all(axis=1) & (windows[:, 0] >= 0)
        names = [as_split(name.decode(errors="replace")) for name in rows.split_names]
        return BytesColumn.of([*names, ""]).take(windows[:, 0]), same

    def partitions(self) -> int:
        """One."""
        return 1

    def schema(self) -> Schema:
        """The values of a window, its label, and its key."""
        length, sensors = self.cut.length, self.names.sensors
        features = {"values": Feature(dtype="float32", shape=(length, len(sensors)))}
        if not self.cut.stack:
            features = {name: Feature(dtype="float32", shape=(length,)) for name in sensors}
        if self.cut.times:
            kind = "float64" if self.data["times"].dtype == np.float64 else "int64"
            features["time"] = Feature(dtype=kind, shape=(length,), meaning="date" if self.are_dates else "")
        if self.names.label is not None and self.label_feature is not None:
            dtype = "float32" if self.cut.label_from in ("mean", "all") else self.label_feature.dtype
            shape = (self.cut.horizon,) if self.cut.label_from == "all" else ()
            features[str(self.label)] = Feature(dtype=dtype, shape=shape)
        features["key"] = Feature(dtype="str")
        return Schema(features=features)

    def list(self, partition: int, columns: Sequence[str]) -> Listing:
        """Keys are a series and the time at which a window begins."""
        assert partition == 0
        data = self.data
        there = {"series": data["series"], "key": data["keys"]}
        if "split" in data:
            there["split"] = data["split"]
        if "label" in data and self.label is not None:
            there[self.label] = data["label"]
        return Listing(data["keys"], {name: there[name] for name in columns if name in there}, counted=self.counted)

    def read(self, partition: int, rows: NDArray[np.int64] | None) -> Iterator[Block]:
        """The requested windows, in that order."""
        assert partition == 0
        wanted = np.arange(len(self.data["first"])) if rows is None else np.asarray(rows, np.int64)
        step = max(1, _BLOCK_BYTES // (self.cut.length * len(self.names.sensors) * 4))
        for start in range(0, len(wanted), step):
            yield self._block(wanted[start : start + step])

    def _block(self, wanted: NDArray[np.int64]) -> Block:
        data, length = self.data, self.cut.length
        first = np.asarray(data["first"][wanted])
        faults = windows_at(data["faults"], first, length)
        bad = faults.any(axis=1)
        refused = [
            Refused(int(wanted[at]), "schema", self._why(int(first[at]), faults[at])) for at in np.flatnonzero(bad)
        ]
        kept, first = wanted[~bad], first[~bad]
        values = windows_at(data["values"], first, length)
        columns: dict[str, Column] = {"values": values}
        if not self.cut.stack:
            columns = {name: np.ascontiguousarray(values[..., i]) for i, name in enumerate(self.names.sensors)}
        if self.cut.times:
            columns["time"] = windows_at(data["times"], first, length)
        if "label" in data and self.label is not None:
            columns[self.label] = take(data["label"], kept)
        columns["key"] = data["keys"].take(kept)
        return Block(kept, columns, refused)

    def _why(self, first: int, faults: NDArray[np.int64]) -> str:
        at = int(np.argmax(faults > 0))
        sensor, what = divmod(int(faults[at]), 4)
        name = self.names.sensors[sensor]
        moment = when(self.data["times"][first + at], are_dates=self.are_dates)
        if what == OUTSIDE:
            low, high = self.how.ranges[name]
            return f"{name} is {self.data['values'][first + at, sensor]:g} at {moment}, outside {low:g} to {high:g}"
        return f"{name} is missing at {moment}"

    def locate(self, partition: int, row: int) -> str:
        """The file or files, and the window's key."""
        assert partition == 0
        return f"{self.where}: window {self.data['keys'][row].decode(errors='backslashreplace')}"

    def fingerprint(self) -> str:
        """Names, sizes and times of the files, and the options."""
        return self.print

    def describe(self) -> dict[str, Any]:
        """The paths and options."""
        return dict(self.recipe)

    def spool(self, folder: Path | None = None) -> None:
        """Write the rows to files that other processes can map, in `folder` or in a temporary folder."""
        if not is_spooled(self.spooled, folder):
            self.spooled = spool_columns(self.data, folder)

    def __getstate__(self) -> dict[str, Any]:
        self.spool()
        return {name: value for name, value in self.__dict__.items() if name != "data"} | {"table": None, "counted": {}}
