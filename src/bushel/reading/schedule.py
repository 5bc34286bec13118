"""Which batches come, in which order, from any place on, and which rank reads what.

One step of all ranks takes the next world x batch_size positions, each rank its own run of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.reading.batch import Group, Place, PlannedBatch
from bushel.reading.layout import Pack
from bushel.reading.order import Order, Sampler

__all__ = ["Schedule", "Step", "Steps"]

Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Step:
    """What one rank reads in one step."""

    positions: Ints | range
    real: NDArray[np.bool_] | None  # False where a position only fills up the step; None: all are real
    after: int  # positions that all ranks together have consumed after it


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
        """The step that begins where all ranks together have consumed this many; None after the last."""
        world, rank = self.order.world, self.order.rank
        left = self.size - consumed
        whole = self.batch_size * world
        if left >= whole:
            first = consumed + rank * self.batch_size
            return Step(range(first, first + self.batch_size), None, consumed + whole)
        if left <= 0:
            return None
        return self._last(consumed, left)

    def _last(self, consumed: int, left: int) -> Step | None:
        """Every rank has the same number of rows in it, whatever the policy."""
        world, rank = self.order.world, self.order.rank
        if self.order.uneven == "drop":
            share = 0 if self.drop_last else left // world
            first = consumed + rank * share
            return Step(range(first, first + share), None, self.size) if share else None
        share = self.batch_size if self.drop_last else -(-left // world)
        positions = np.arange(share) + consumed + rank * share
        real = positions < self.size
        filled = np.minimum(positions, self.size - 1) if self.order.uneven == "pad" else positions % self.size
        return Step(filled, None if real.all() else real, self.size)

    def count(self, consumed: int = 0) -> int:
        """How many steps are left."""
        left = max(self.size - consumed, 0)
        whole, rest = divmod(left, self.batch_size * self.order.world)
        has_last = rest > 0 and self._last(self.size - rest, rest) is not None
        return whole + has_last


@dataclass(frozen=True)
class Schedule:
    """All batches of one rank, as a pure function of where reading stands."""

    steps: Steps
    sampler: Sampler
    epochs: int | None  # None: no end
    batches_at_once: int = 1  # small batches are made several at a time
    pack: Pack | None = None
    lengths: Ints | None = None  # of the feature to be packed

    def through(self, epochs: int | None) -> Schedule:
        """The same up to another epoch."""
        return replace(self, epochs=epochs)

    def groups(self, place: Place) -> Iterator[Group]:
        """What is still to be made, from `place` to the end of the last epoch."""
        while (self.epochs is None or place.epoch < self.epochs) and self.steps.size > 0:
            yield from self._packed(place) if self.pack is not None else self._plain(place)
            place = Place(place.epoch + 1)

    def _plain(self, place: Place) -> Iterator[Group]:
        position, batches = place.position, []
        while (step := self.steps.at(position)) is not None:
            position = step.after
            batches.append(PlannedBatch(step.positions, step.real, self._place_after(place.epoch, position)))
            if len(batches) == self.batches_at_once:
                yield Group(place.epoch, batches)
                batches = []
        if batches:
            yield Group(place.epoch, batches)

    def _place_after(self, epoch: int, position: int) -> Place:
        is_there = position + self.steps.batch_size * self.steps.order.world <= self.steps.size
        return Place(epoch, position) if is_there or self.steps.at(position) is not None else Place(epoch + 1)

    def _packed(self, place: Place) -> Iterator[Group]:
        """Bins of one window after those of the last; a step takes world x batch_size of them."""
        coming: list[tuple[Ints, Place]] = []  # the records of a bin, and where reading stands after it
        position, skip = place.position, place.bin
        whole = self.steps.batch_size * self.steps.order.world
        while True:
            while len(coming) < whole + 1 and position < self.steps.size:
                bins = self._window(place.epoch, position)
                end = min(position + self._window_records, self.steps.size)
                places = [Place(place.epoch, position, number) for number in range(1, len(bins))]
                coming += list(zip(bins, [*places, Place(place.epoch, end)], strict=True))[skip:]
                position, skip = end, 0
            steps = Steps(len(coming), self.steps.batch_size, self.steps.order, self.steps.drop_last)
            step = steps.at(0)
            if step is None:
                return
            taken, after = coming[: step.after], coming[step.after - 1][1]
            coming = coming[step.after :]
            is_last = Steps(len(coming), steps.batch_size, steps.order, steps.drop_last).at(0) is None
            after = Place(place.epoch + 1) if is_last else after
            chosen = [taken[int(at)][0] for at in step.positions]
            bins_of = np.repeat(np.arange(len(chosen)), [len(rows) for rows in chosen])
            yield Group(place.epoch, [PlannedBatch(np.concatenate(chosen), step.real, after, bins_of, len(chosen))])
            if is_last:
                return

    @property
    def _window_records(self) -> int:
        assert self.pack is not None
        return self.pack.window

    def _window(self, epoch: int, position: int) -> list[Ints]:
        """The records of each bin that those from `position` on are packed into."""
        assert self.pack is not None
        assert self.lengths is not None
        end = min(position + self._window_records, self.steps.size)
        rows = self.sampler.rows(epoch, np.arange(position, end))
        bins, count = _native.pack(self.lengths[rows], self.pack.length)
        ends = np.cumsum(np.bincount(bins, minlength=count))
        return np.split(rows[np.argsort(bins, kind="stable")], ends[:-1])
