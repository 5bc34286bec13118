"""Windows over rows: their keys, their labels, and the times at which splits end."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.data.splits import named_shares, shares_of_one
from bushel.sources.series.series_rows import NO_LABEL, Rows

__all__ = ["labels_over", "time_cuts", "when", "window_keys", "windows_at"]

_CHUNK = 1 << 22  # values looked at in one go


def windows_at(array: NDArray[Any], first: NDArray[np.int64], length: int) -> NDArray[Any]:
    """The rows of windows that begin at `first`, one window after the other."""
    return np.asarray(array[first[:, None] + np.arange(length)])


def when(time: Any, *, are_dates: bool) -> str:
    """A time as people write it."""
    if not are_dates:
        return repr(time.item())
    text = str(np.datetime64(int(time), "us"))
    return text.rstrip("0").rstrip(".") if "." in text else text


def window_keys(rows: Rows, first: NDArray[np.int64]) -> list[bytes]:
    """A series and the time at which the window begins: windows of rows that are added later change none of them."""
    names = rows.series_names
    times = rows.times[first]
    return [
        names[code] + (b"@" if names[code] else b"") + when(time, are_dates=rows.are_dates).encode()
        for code, time in zip(rows.series[first].tolist(), times, strict=True)
    ]


def labels_over(labels: NDArray[Any], first: NDArray[np.int64], length: int, *, is_mean: bool) -> NDArray[Any]:
    """The label that most rows of a window have, of two the one with the lower code or number; or the mean."""
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


def time_cuts(given: str | Mapping[str, Any], rows: Rows, first: NDArray[np.int64]) -> tuple[list[str], NDArray[Any]]:
    """Names of splits in the order of time, and the times at which all but the first begin."""
    named = named_shares(given, "time_split")
    names, values = list(named), list(named.values())
    if any(isinstance(value, str) for value in values):
        return names, np.array([_until(value, rows) for value in values[:-1]], rows.times.dtype)
    named = {name: Fraction(str(value)) for name, value in named.items()}
    shares = list(shares_of_one(named, given, "time_split").values())
    ordered = np.sort(rows.times[first])
    at = [int(sum(shares[: i + 1], Fraction(0)) * len(ordered)) for i in range(len(shares) - 1)]
    return names, ordered[np.minimum(at, len(ordered) - 1)]


def _until(value: Any, rows: Rows) -> Any:
    try:
        return np.datetime64(value, "us").astype(np.int64) if rows.are_dates else float(value)
    except (ValueError, TypeError):
        raise ValueError(f"time_split must say until when a split is, got {value!r}") from None
