"""The form in which the benchmarks hold batches: what they generate, and what every rival's output is compared in."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

BATCH = 1024


@dataclass(frozen=True)
class Feature:
    """`length` values of `dtype` (float32, int64 or bytes) in every record; None is any number of them."""

    dtype: str
    length: int | None = 1


@dataclass(frozen=True)
class Split:
    """Rows of different lengths in one array: ragged numbers, or bytes as uint8."""

    values: np.ndarray
    splits: np.ndarray


Features = Mapping[str, Feature]
Columns = dict[str, np.ndarray | Split]
Sample = dict[str, np.ndarray | int | float | bytes]


def split_rows(rows: list[np.ndarray] | list[bytes]) -> Split:
    """Join rows into one array."""
    splits = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=splits[1:])
    if isinstance(rows[0], bytes):
        return Split(np.frombuffer(b"".join(rows), np.uint8), splits)
    return Split(np.concatenate(rows), splits)


def count(columns: Columns) -> int:
    """Count the records."""
    column = next(iter(columns.values()))
    return len(column.splits) - 1 if isinstance(column, Split) else len(column)


def cut(columns: Columns, start: int, stop: int) -> Columns:
    """Take the records from `start` to `stop`, without copying their values."""
    return {name: _cut(column, start, stop) for name, column in columns.items()}


def _cut(column: np.ndarray | Split, start: int, stop: int) -> np.ndarray | Split:
    if not isinstance(column, Split):
        return column[start:stop]
    splits = column.splits[start : stop + 1]
    return Split(column.values[splits[0] : splits[-1]], splits - splits[0])


def batches(columns: Columns) -> Iterator[Columns]:
    """Yield the same records, at most BATCH at a time."""
    for start in range(0, count(columns), BATCH):
        yield cut(columns, start, start + BATCH)


def samples(columns: Columns, features: Features) -> Iterator[Sample]:
    """Yield one sample per record, as a person would hold it: arrays, Python numbers and bytes."""
    rows = {name: _rows(column, features[name]) for name, column in columns.items()}
    for values in zip(*rows.values(), strict=True):
        yield dict(zip(rows, values, strict=True))


def _rows(column: np.ndarray | Split, feature: Feature) -> list:
    if not isinstance(column, Split):
        return column.tolist() if feature.length == 1 else list(column)
    rows = np.split(column.values, column.splits[1:-1])
    return [row.tobytes() for row in rows] if feature.dtype == "bytes" else rows


def gather(rows: list[Sample], features: Features) -> Columns:
    """Do the opposite of `samples`; scalars may come as arrays of one value."""
    return {name: _gather([row[name] for row in rows], feature) for name, feature in features.items()}


def _gather(rows: list, feature: Feature) -> np.ndarray | Split:
    if feature.dtype == "bytes" or feature.length is None:
        return split_rows(rows)
    shape = (len(rows),) if feature.length == 1 else (len(rows), feature.length)
    return np.asarray(rows, feature.dtype).reshape(shape)


def difference(wanted: Columns, got: Columns) -> str | None:
    """Name the first feature that differs in type, shape or value."""
    if wanted.keys() != got.keys():
        return ", ".join(sorted(wanted.keys() ^ got.keys()))
    return next((name for name in wanted if not _equal(wanted[name], got[name])), None)


def _equal(wanted: np.ndarray | Split, got: np.ndarray | Split) -> bool:
    if isinstance(wanted, Split) != isinstance(got, Split):
        return False
    if isinstance(wanted, Split):
        return _equal(wanted.values, got.values) and np.array_equal(wanted.splits, got.splits)
    return wanted.dtype == got.dtype and np.array_equal(wanted, got)
