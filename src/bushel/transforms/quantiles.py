"""Quantiles of any number of values: exact for a million, within a known bound beyond that."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Quantiles"]

EXACT = 1 << 20  # values that are all kept
BUFFER = 1 << 17  # values of one buffer beyond that

Floats = NDArray[np.float64]


@dataclass
class Quantiles:
    """What is known of the distribution of values, mergeable in any order that is always the same.

    Up to `EXACT` values all are kept. Beyond, sorted buffers of `BUFFER` values stand for 2^level values each; two of
    one level become one of the next by leaving out every other value. Each time, no rank moves by more than the weight
    of one value, so `error` bounds how far any rank can be off: about log2(n / BUFFER) / (2 * BUFFER) of all values,
    which is 0.005% for a thousand million.
    """

    count: int = 0
    error: int = 0  # ranks
    _whole: list[Floats] = field(default_factory=list)  # values not in buffers yet
    _buffers: dict[int, Floats] = field(default_factory=dict)  # sorted, at most one a level
    _odd: dict[int, bool] = field(default_factory=dict)  # which of two values was kept last, by level

    def add(self, values: Floats) -> None:
        """Learn more values; those that are not finite are passed over."""
        values = values[np.isfinite(values)]
        if not len(values):
            return
        self.count += len(values)
        self._whole.append(values)
        if self.count > EXACT:
            self._collapse()

    def merge(self, other: Quantiles) -> Quantiles:
        """Take what another learnt."""
        self.count += other.count
        self.error += other.error
        self._whole += other._whole
        for level in sorted(other._buffers):
            self._put(other._buffers[level], level)
        if self.count > EXACT:
            self._collapse()
        return self

    def _collapse(self) -> None:
        flat = np.concatenate([*self._whole, np.empty(0)])
        full = len(flat) // BUFFER * BUFFER
        for begin in range(0, full, BUFFER):
            self._put(np.sort(flat[begin : begin + BUFFER]), 0)
        self._whole = [flat[full:]]

    def _put(self, buffer: Floats, level: int) -> None:
        while level in self._buffers:
            both = np.sort(np.concatenate([self._buffers.pop(level), buffer]), kind="stable")
            odd = self._odd[level] = not self._odd.get(level, False)  # in turn, so that errors cancel
            buffer = both[int(odd) :: 2]
            self.error += 1 << level
            level += 1
        self._buffers[level] = buffer

    def at(self, shares: list[float]) -> list[float]:
        """The quantiles at these shares: interpolated as NumPy does while all values are kept, then the nearest."""
        if not self.count:
            return [0.0 for _ in shares]
        flat = np.concatenate([*self._whole, np.empty(0)])
        if not self._buffers:
            return [float(value) for value in np.quantile(flat, shares)]
        parts = [(flat, 1), *((self._buffers[level], 1 << level) for level in sorted(self._buffers))]
        values = np.concatenate([part for part, _ in parts])
        weights = np.concatenate([np.full(len(part), weight) for part, weight in parts])
        order = np.argsort(values, kind="stable")
        ends = np.cumsum(weights[order])
        ranks = np.array(shares) * (self.count - 1) + 1
        return [float(value) for value in values[order][np.searchsorted(ends, ranks)]]

    @property
    def rank_error(self) -> float:
        """The share of all values by which any rank may be off; 0 where quantiles are exact."""
        return self.error / self.count if self.count else 0.0
