"""Rows of tables by series and time: sorted, without duplicates, cut at gaps, resampled. What was found is counted."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, Ragged
from bushel.data.schema import Feature
from bushel.errors import FileProblem, MissingName
from bushel.sources.tables.table import TableSource

__all__ = ["Cleaning", "SeriesRows", "clean_rows", "collect_rows", "holds_dates"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Gap: TypeAlias = Literal["auto", "none"]
Resample: TypeAlias = Literal["linear", "previous", "mean"]
Duplicates: TypeAlias = Literal["first", "last", "mean"]
Missing: TypeAlias = Literal["refuse", "previous", "linear"]
Outside: TypeAlias = Literal["refuse", "missing", "clip"]
MICROSECONDS = 1_000_000
MISSING, OUTSIDE = 1, 2  # what can be wrong with a value of a row
NO_LABEL = -1


@dataclass(frozen=True)
class Cleaning:
    """How rows are cleaned for windows. Times are in units of the time column; in seconds where it holds dates."""

    gap: float | Gap = "auto"
    every: float | None = None
    resample: Resample = "linear"
    duplicates: Duplicates = "first"
    missing: Missing | float = "refuse"
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    outside: Outside = "refuse"


@dataclass
class SeriesRows:
    """Rows of all series. Cleaned, those of one stretch without a gap follow one another."""

    times: NDArray[Any]  # int64 (microseconds where they were dates) or float64
    series: Ints  # codes
    values: NDArray[Any]  # one column per sensor
    labels: NDArray[Any] | None  # codes of text, -1 where there is none, or numbers
    splits: Ints | None
    series_names: list[bytes]
    label_names: list[bytes]
    split_names: list[bytes]
    are_dates: bool
    faults: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # 4 * sensor + what is wrong; 0 if nothing
    stretches: Ints = field(default_factory=lambda: np.zeros(1, np.int64))  # where each begins, and the end
    counted: Counter[str] = field(default_factory=Counter)

    @property
    def scale(self) -> float:
        """Units of `times` in one unit of what people write."""
        return MICROSECONDS if self.are_dates else 1


class Codes:
    """Texts or integers, numbered in order of first appearance."""

    def __init__(self) -> None:
        self.known: dict[bytes, int] = {}

    def encode(self, column: Column) -> Ints:
        """The number of each row's value; -1 where it is missing."""
        import pyarrow as pa

        if isinstance(column, Ragged):
            present = np.ones(len(column), bool) if column.present is None else column.present
            found = np.full(len(column), -1, np.int64)
            found[present] = self.encode(column.values)
            return found
        if isinstance(column, np.ndarray):
            texts: Any = pa.array(column).cast(pa.large_string()).cast(pa.large_binary())
        else:
            offsets = np.ascontiguousarray(column.offsets, np.int64)
            buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(column.data))]
            texts = pa.Array.from_buffers(pa.large_binary(), len(column), buffers)
        if not len(texts):
            return np.empty(0, np.int64)
        packed = texts.dictionary_encode()
        numbers = [self.known.setdefault(name, len(self.known)) for name in packed.dictionary.to_pylist()]
        return np.asarray(np.array(numbers, np.int64)[packed.indices.to_numpy()], np.int64)


@dataclass(frozen=True)
class Names:
    """The role of each column."""

    time: str
    series: str | None
    sensors: tuple[str, ...]
    label: str | None
    split: str | None


def collect_rows(table: TableSource, names: Names) -> SeriesRows:
    """Read all rows of a table, part by part; values go to a file, the rest stays in memory."""
    wanted = [name for name in (names.time, names.series, names.label, names.split, *names.sensors) if name is not None]
    features = table.schema()
    for name in wanted:
        if name not in features:
            raise MissingName("column", name, features, where=table.files[0])
    folder = Path(tempfile.mkdtemp(prefix="bushel-series-"))
    try:
        return _collect(table, names, wanted, folder / "values")
    finally:
        shutil.rmtree(folder)  # mapped memory stays in use until it is released


def _collect(table: TableSource, names: Names, wanted: list[str], path: Path) -> SeriesRows:
    series, labels, splits = Codes(), Codes(), Codes()
    times: list[Any] = []
    codes: dict[str, list[Any]] = {"series": [], "label": [], "split": []}
    counted: Counter[str] = Counter()
    label_is_text = names.label is not None and table.schema()[names.label].dtype == "str"
    are_dates = holds_dates(table.schema()[names.time])
    with path.open("wb") as file:
        for partition in range(table.partitions()):
            columns = table.list(partition, list(dict.fromkeys(wanted))).columns
            stamps, known = _times(columns[names.time], names.time, table.files[0])
            if names.series is None:
                name = Path(table.files[table.parts[partition][0]]).stem if len(table.files) > 1 else ""
                of_series = series.encode(BytesColumn.of([name])).repeat(len(stamps))
            else:
                of_series = series.encode(columns[names.series])
            counted["rows without a time"] += int((~known).sum())
            counted["rows without a series"] += int((of_series[known] < 0).sum())
            keep = known & (of_series >= 0)
            times.append(stamps[keep])
            codes["series"].append(of_series[keep])
            if names.label is not None:
                given = columns[names.label]
                found = labels.encode(given) if label_is_text else _numbers(given, names.label, table.files[0])
                codes["label"].append(found[keep])
            if names.split is not None:
                codes["split"].append(splits.encode(columns[names.split])[keep])
            sensors = [_numbers(columns[name], name, table.files[0])[keep] for name in names.sensors]
            file.write(np.ascontiguousarray(np.stack(sensors, axis=1)).data)
    stamps = np.concatenate(times)
    if not len(stamps):
        raise FileProblem(table.files[0], f"no row has a time in {names.time!r}")
    shape = (len(stamps), len(names.sensors))
    return SeriesRows(
        stamps,
        np.concatenate(codes["series"]),
        np.memmap(path, np.float64, "r", shape=shape),
        np.concatenate(codes["label"]) if names.label else None,
        np.concatenate(codes["split"]) if names.split else None,
        list(series.known),
        list(labels.known),
        list(splits.known),
        are_dates,
        counted=+counted,
    )


def holds_dates(feature: Feature) -> bool:
    """Whether a column of times holds dates, be it as text, and no numbers."""
    return feature.dtype == "str" or feature.meaning == "date"


def _times(column: Column, name: str, where: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Time of each row, and whether it has one; dates as microseconds since 1970."""
    if isinstance(column, Ragged) and column.present is not None:
        inner, known = _times(column.values, name, where)
        present = column.present.copy()
        found = np.zeros(len(column), inner.dtype)
        found[column.present] = inner
        present[column.present] = known
        return found, present
    if isinstance(column, BytesColumn):
        return _dates(column, name, where)
    if not isinstance(column, np.ndarray) or column.ndim != 1:
        raise FileProblem(where, f"the time column {name!r} must hold one number or date per row")
    if column.dtype.kind == "f":
        return column.astype(np.float64), np.asarray(np.isfinite(column))
    return column.astype(np.int64), np.ones(len(column), bool)


def _dates(column: BytesColumn, name: str, where: str) -> tuple[Ints, NDArray[np.bool_]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    offsets = np.ascontiguousarray(column.offsets, np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(column.data))]
    texts = pa.Array.from_buffers(pa.large_string(), len(column), buffers)
    for kind in (pa.timestamp("us"), pa.timestamp("us", tz="UTC")):
        try:
            stamps = pc.cast(texts, kind)
            return np.asarray(stamps.cast(pa.int64())), np.ones(len(column), bool)
        except pa.ArrowInvalid:
            continue
    found, known = np.zeros(len(column), np.int64), np.zeros(len(column), bool)
    for row, text in enumerate(texts.to_pylist()):
        try:
            found[row] = np.datetime64(text.strip().removesuffix("Z").replace(" ", "T"), "us").astype(np.int64)
            known[row] = True
        except ValueError:
            continue
    if len(known) and not known.any():
        shown = texts[0].as_py()[:40]
        raise FileProblem(where, f"the time column {name!r} holds no dates such as 2024-03-01T12:00:00, got {shown!r}")
    return found, known


def _numbers(column: Column, name: str, where: str) -> Floats:
    """One number per row; NaN where it is missing."""
    if isinstance(column, Ragged) and column.present is not None and isinstance(column.values, np.ndarray):
        found = np.full(len(column), np.nan)
        if column.values.ndim == 1 and (column.lengths[column.present] == 1).all():
            found[column.present] = column.values
            return found
    if not isinstance(column, np.ndarray) or column.ndim != 1:
        raise FileProblem(
            where,
            f"windows are made of numbers, and the column {name!r} does not hold one number per row",
            help=["Choose the sensors: --columns A,B"],
        )
    return column.astype(np.float64)


def clean_rows(rows: SeriesRows, names: Names, how: Cleaning) -> SeriesRows:
    """Sort rows by series and time, and clean them for windows."""
    order = np.lexsort((rows.times, rows.series))
    out_of_order = _out_of_order(rows)
    if out_of_order:
        rows.counted["rows out of order, put in order"] = out_of_order
    starts = np.flatnonzero(np.diff(rows.series[order], prepend=-1))
    made: list[dict[str, Any]] = []
    for begin, end in zip(starts, [*starts[1:], len(order)], strict=True):
        made += _clean_series(rows, order[begin:end], names, how)
    return _joined(rows, made)


def _out_of_order(rows: SeriesRows) -> int:
    """The number of rows that are earlier than a row of their series before them."""
    order = np.argsort(rows.series, kind="stable")
    times, series = rows.times[order], rows.series[order]
    found = 0
    edges = np.flatnonzero(np.diff(series, prepend=-1))
    for begin, end in zip(edges, [*edges[1:], len(order)], strict=True):
        found += int((times[begin:end] < np.maximum.accumulate(times[begin:end])).sum())
    return found


def _clean_series(rows: SeriesRows, picked: Ints, names: Names, how: Cleaning) -> list[dict[str, Any]]:
    times, picked, values = _without_doubles(rows, picked, how)
    labels = None if rows.labels is None else rows.labels[picked]
    splits = None if rows.splits is None else rows.splits[picked]
    faults = _faults(rows, values, names, how)
    stretches = []
    for begin, end in _stretches(rows, times, how):
        part = slice(begin, end)
        stretch: dict[str, Any] = {
            "times": times[part],
            "values": _filled(values[part], how),
            "labels": None if labels is None else labels[part],
            "splits": None if splits is None else splits[part],
            "faults": faults[part],
        }
        stretch["faults"] = np.where(stretch["faults"] > 0, stretch["faults"], _missing(stretch["values"]))
        if how.every is not None:
            stretch = _resampled(stretch, how, rows.scale)
        if len(stretch["times"]):
            stretch["series"] = np.full(len(stretch["times"]), rows.series[picked[0]])
            stretches.append(stretch)
    return stretches


def _without_doubles(rows: SeriesRows, picked: Ints, how: Cleaning) -> tuple[NDArray[Any], Ints, Floats]:
    times = rows.times[picked]
    values = np.array(rows.values[picked])
    first = np.flatnonzero(np.diff(times, prepend=times[0] - 1) != 0)
    doubles = len(times) - len(first)
    if not doubles:
        return times, picked, values
    rows.counted[f"rows with the time of another, of which the {how.duplicates} is taken"] += doubles
    keep = first if how.duplicates != "last" else np.append(first[1:], len(times)) - 1
    if how.duplicates == "mean":
        counts = np.add.reduceat(~np.isnan(values), first, axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            values = np.add.reduceat(np.nan_to_num(values), first, axis=0) / counts
        return times[first], picked[first], values
    return times[keep], picked[keep], values[keep]


def _faults(rows: SeriesRows, values: Floats, names: Names, how: Cleaning) -> Ints:
    """Count what is missing or outside of its range; those outside that refuse, by row."""
    faults = np.zeros(len(values), np.int64)
    values[np.isinf(values)] = np.nan
    for number, name in enumerate(names.sensors):
        column = values[:, number]
        if (gone := int(np.isnan(column).sum())) > 0:
            rows.counted[f"missing values of {name}"] += gone
            rows.counted[f"series without any {name}"] += gone == len(column)
        if name in how.ranges:
            low, high = how.ranges[name]
            with np.errstate(invalid="ignore"):
                outside = (column < low) | (column > high)
            if outside.any():
                rows.counted[f"values of {name} outside {low:g} to {high:g}"] += int(outside.sum())
                if how.outside == "clip":
                    np.clip(column, low, high, out=column)
                elif how.outside == "missing":
                    column[outside] = np.nan
                else:
                    faults[outside & (faults == 0)] = 4 * number + OUTSIDE
    rows.counted = +rows.counted
    return faults


def _stretches(rows: SeriesRows, times: NDArray[Any], how: Cleaning) -> list[tuple[int, int]]:
    steps = np.diff(times)
    if how.gap == "none" or not len(steps):
        return [(0, len(times))]
    most = 10 * float(np.median(steps)) if how.gap == "auto" else float(how.gap) * rows.scale
    edges = np.flatnonzero(steps > most) + 1
    if len(edges):
        rows.counted["gaps, which no window spans"] += len(edges)
    return list(zip([0, *edges.tolist()], [*edges.tolist(), len(times)], strict=True))


def _filled(values: Floats, how: Cleaning) -> Floats:
    """Fill the missing values of one stretch, if requested and possible."""
    if how.missing == "refuse" or not np.isnan(values).any():
        return values
    values = values.copy()
    for column in values.T:
        there = np.flatnonzero(~np.isnan(column))
        gone = np.flatnonzero(np.isnan(column))
        if not isinstance(how.missing, str):
            column[gone] = how.missing
        elif len(there):
            before = np.searchsorted(there, gone) - 1
            if how.missing == "previous":
                fill = np.where(before >= 0, column[there[before]], np.nan)
            else:
                fill = np.interp(gone, there, column[there], left=np.nan, right=np.nan)
            column[gone] = fill
    return values


def _missing(values: Floats) -> Ints:
    gone = np.isnan(values)
    return np.where(gone.any(axis=1), 4 * np.argmax(gone, axis=1) + MISSING, 0)


def _resampled(stretch: dict[str, Any], how: Cleaning, scale: float) -> dict[str, Any]:
    """The stretch at even times, which are multiples of `every`."""
    assert how.every is not None
    times, step = stretch["times"], how.every * scale
    first, last = int(np.ceil(times[0] / step - 1e-9)), int(np.floor(times[-1] / step + 1e-9))
    grid = np.asarray(np.arange(first, last + 1) * step, np.float64)
    before = np.clip(np.searchsorted(times, grid + step * 1e-9, "right") - 1, 0, len(times) - 1)
    after = np.minimum(np.where(times[before] < grid, before + 1, before), len(times) - 1)
    values = stretch["values"]
    if how.resample == "previous":
        made = values[before]
    elif how.resample == "mean":
        made = _means(times, values, grid, step)
    else:
        span = np.maximum(times[after] - times[before], 1e-300)
        share = np.where(after > before, (grid - times[before]) / span, 0.0)[:, None]
        made = np.where(share > 0, values[before] * (1 - share) + values[after] * share, values[before])
    faults = np.where(stretch["faults"][before] > 0, stretch["faults"][before], stretch["faults"][after])
    return {
        "times": np.rint(grid).astype(np.int64) if times.dtype == np.int64 else grid,
        "values": made,
        "labels": None if stretch["labels"] is None else stretch["labels"][before],
        "splits": None if stretch["splits"] is None else stretch["splits"][before],
        "faults": np.where(faults > 0, faults, _missing(made)),
    }


def _means(times: NDArray[Any], values: Floats, grid: Floats, step: float) -> Floats:
    """The mean of the values between one time of the grid and the next; without values, the previous mean."""
    edges = np.searchsorted(times, np.append(grid, grid[-1:] + step) - step * 1e-9)
    sums = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
    counts = np.diff(edges)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (sums[edges[1:]] - sums[edges[:-1]]) / counts
    return np.where(counts > 0, means, values[np.maximum(edges[:-1] - 1, 0)])


def _joined(rows: SeriesRows, made: Sequence[Mapping[str, Any]]) -> SeriesRows:
    def join(name: str, dtype: Any) -> Any:
        return np.concatenate([np.asarray(stretch[name], dtype) for stretch in made])

    if not made:
        raise FileProblem("series", "no stretch of any series has a time on the grid")
    return SeriesRows(
        join("times", rows.times.dtype),
        join("series", np.int64),
        np.concatenate([stretch["values"].astype(np.float32) for stretch in made]),
        None if rows.labels is None else join("labels", rows.labels.dtype),
        None if rows.splits is None else join("splits", np.int64),
        rows.series_names,
        rows.label_names,
        rows.split_names,
        rows.are_dates,
        join("faults", np.int64),
        np.cumsum([0, *(len(stretch["times"]) for stretch in made)]),
        rows.counted,
    )
