"""Who reads what: one step of all ranks takes the next world x batch_size positions, each rank its own run of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel.reading.order import Order

__all__ = ["Step", "Steps"]

Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Step:
    """What one rank reads in one step."""

    positions: Ints
    real: NDArray[np.bool_] | None  # False where a position only fills up; None: all are real
    after: int  # positions that all ranks together have consumed behind it


@dataclass(frozen=True)
class Steps:
    """The steps of one epoch of `size` positions."""

    size: int
    batch_size: int
    order: Order
    drop_last: bool

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {self.batch_size}")

    def at(self, consumed: int) -> Step | None:
        """The step that begins where all ranks together have consumed so many; None behind the last."""
        world, rank = self.order.world, self.order.rank
        left = self.size - consumed
        whole = self.batch_size * world
        if left >= whole:
            first = consumed + rank * self.batch_size
            return Step(np.arange(first, first + self.batch_size), None, consumed + whole)
        if left <= 0:
            return None
        return self._last(consumed, left)

    def _last(self, consumed: int, left: int) -> Step | None:
        """Every rank has the same number of rows in it, whatever the policy."""
        world, rank = self.order.world, self.order.rank
        if self.order.uneven == "drop":
            share = 0 if self.drop_last else left // world
            first = consumed + rank * share
            return Step(np.arange(first, first + share), None, self.size) if share else None
        share = self.batch_size if self.drop_last else -(-left // world)
        positions = np.arange(share) + consumed + rank * share
        real = positions < self.size
        filled = np.minimum(positions, self.size - 1) if self.order.uneven == "pad" else positions % self.size
        return Step(filled, None if real.all() else real, self.size)

    def count(self, consumed: int = 0) -> int:
        """How many steps there are from here on."""
        left = max(self.size - consumed, 0)
        whole, rest = divmod(left, self.batch_size * self.order.world)
        has_last = rest > 0 and self._last(self.size - rest, rest) is not None
        return whole + has_last
