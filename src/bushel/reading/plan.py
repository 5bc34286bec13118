"""Which batches come, in which order, from any place on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.reading.batch import Part, Place, Task
from bushel.reading.layout import Pack
from bushel.reading.order import Sampler
from bushel.reading.steps import Steps

__all__ = ["Plan"]

Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Plan:
    """All batches of one rank, as a pure function of where reading stands."""

    steps: Steps
    sampler: Sampler
    epochs: int | None  # None: without end
    batches_at_once: int = 1  # small batches are made several at a time
    pack: Pack | None = None
    lengths: Ints | None = None  # of the feature to be packed

    def through(self, epochs: int | None) -> Plan:
        """The same plan up to another epoch."""
        return replace(self, epochs=epochs)

    def tasks(self, place: Place) -> Iterator[Task]:
        """What is still to be made, from `place` to the end of the last epoch."""
        while (self.epochs is None or place.epoch < self.epochs) and self.steps.size > 0:
            yield from self._packed(place) if self.pack is not None else self._plain(place)
            place = Place(place.epoch + 1)

    def _plain(self, place: Place) -> Iterator[Task]:
        position, parts = place.position, []
        while (step := self.steps.at(position)) is not None:
            position = step.after
            parts.append(Part(step.positions, step.real, self._place_behind(place.epoch, position)))
            if len(parts) == self.batches_at_once:
                yield Task(place.epoch, parts)
                parts = []
        if parts:
            yield Task(place.epoch, parts)

    def _place_behind(self, epoch: int, position: int) -> Place:
        return Place(epoch, position) if self.steps.at(position) is not None else Place(epoch + 1)

    def _packed(self, place: Place) -> Iterator[Task]:
        """Bins of one window behind those of the last; a step takes world x batch_size of them."""
        coming: list[tuple[Ints, Place]] = []  # the records of a bin, and where reading stands behind it
        position, skip = place.position, place.bin
        whole = self.steps.batch_size * self.steps.order.world
        while True:
            while len(coming) < whole + 1 and position < self.steps.size:
                bins = self._window(place.epoch, position)
                behind = min(position + self._window_records, self.steps.size)
                places = [Place(place.epoch, position, number) for number in range(1, len(bins))]
                coming += list(zip(bins, [*places, Place(place.epoch, behind)], strict=True))[skip:]
                position, skip = behind, 0
            steps = Steps(len(coming), self.steps.batch_size, self.steps.order, self.steps.drop_last)
            step = steps.at(0)
            if step is None:
                return
            taken, after = coming[: step.after], coming[step.after - 1][1]
            coming = coming[step.after :]
            is_last = Steps(len(coming), steps.batch_size, steps.order, steps.drop_last).at(0) is None
            after = Place(place.epoch + 1) if is_last else after
            chosen = [taken[at][0] for at in step.positions.tolist()]
            bins_of = np.repeat(np.arange(len(chosen)), [len(rows) for rows in chosen])
            yield Task(place.epoch, [Part(np.concatenate(chosen), step.real, after, bins_of, len(chosen))])
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
