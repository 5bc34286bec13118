"""Which batches come, in which order, from any place on, and who makes them: threads, here or in other processes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.errors import BushelError
from bushel.parallel import Ahead, Worker, WorkerEnded, available_cores
from bushel.reading.batch import Group, MadeBatches, Maker, OnFault, Place, PlannedBatch
from bushel.reading.dataset import Split
from bushel.reading.layout import Bucket, Layout, Pack, bucketed, check_layout
from bushel.reading.order import Order, Sampler, sampler_of
from bushel.reading.shards import FetchedShards

__all__ = [
    "FeedSettings",
    "ProcessesAhead",
    "Schedule",
    "Step",
    "Steps",
    "Workers",
    "make_ahead",
    "prepare",
    "threads_of",
]


Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Step:
    """What one rank reads in one step."""

    positions: Ints | range
    real: NDArray[np.bool_] | None  # False where a position is filler; None: all are real
    after: int  # positions that all ranks together have read after it


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
        """The step that begins where all ranks together have read this many; None after the last."""
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
        """Every rank has the same number of rows in it, for any policy."""
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
    """All batches of one rank, as a pure function of the position."""

    steps: Steps
    sampler: Sampler
    epochs: int | None  # None: no end
    batches_at_once: int = 1  # small batches are made several at a time
    pack: Pack | None = None
    lengths: Ints | None = None  # of the feature to be packed
    turn: int = 0  # of all batches of the rank, this process makes number `turn`, and every `turns`-th after it
    turns: int = 1

    def groups(self, place: Place) -> Iterator[Group]:
        """The groups from `place` to the end of the last epoch; those of this process, if several take turns."""
        if self.turns == 1:
            yield from self._all_groups(place)
            return
        number = 0
        for group in self._all_groups(place):
            own = [batch for at, batch in enumerate(group.batches, number) if at % self.turns == self.turn]
            number += len(group.batches)
            if own:
                yield Group(group.epoch, own)

    def _all_groups(self, place: Place) -> Iterator[Group]:
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
        """The bins of one window after another; a step takes world x batch_size of them."""
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
        """Pack the records from `position` on: the records of each bin."""
        assert self.pack is not None
        assert self.lengths is not None
        end = min(position + self._window_records, self.steps.size)
        rows = self.sampler.rows(epoch, np.arange(position, end))
        bins, count = _native.pack(self.lengths[rows], self.pack.length)
        ends = np.cumsum(np.bincount(bins, minlength=count))
        return np.split(rows[np.argsort(bins, kind="stable")], ends[:-1])


# Small batches are made together, up to this size per thread and in all. Handing over a group takes the interpreter's
# lock a few times, whatever its size: the more threads wait for that lock, the larger groups must be.
_GROUP_BYTES = 512 << 10
_MOST_GROUP_BYTES = 8 << 20
_GROUP_RECORDS = 8192
_FETCHED_RECORDS = 256  # at random from a store, where each may be of another shard, of which nothing is known yet


class Workers(msgspec.Struct, frozen=True, kw_only=True):
    """Who makes the batches: `threads` (default: one per core), at most `ahead` batches in advance.

    With `processes`, the threads are shared out among so many processes, which hand over batches in shared memory:
    for transforms in Python, of which one process runs only one at a time, and for programs whose main thread keeps
    Python busy. Batches, their order and their randomness stay the same.
    """

    threads: int | None = None
    ahead: int | None = None
    processes: int = 0  # 0: none but this one
    process: bool | None = None

    def __post_init__(self) -> None:
        if self.process is not None:
            raise ValueError("process is gone: Workers(processes=1) makes batches in a separate process")
        for name in ("threads", "ahead"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if self.processes < 0:
            raise ValueError(f"processes must be at least 0, got {self.processes}")


class FeedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """All arguments of `batches`, and which of several processes that take turns with the batches of a rank this is."""

    batch_size: int
    columns: Sequence[str] | None
    order: Order
    transforms: tuple[Any, ...]
    epochs: int | None
    layout: tuple[Layout, ...]
    drop_last: bool
    on_fault: OnFault
    workers: Workers
    turn: int = 0
    turns: int = 1

    def __post_init__(self) -> None:
        if self.epochs is not None and self.epochs < 1:
            raise ValueError(f"epochs must be at least 1 or None, got {self.epochs}")
        if self.on_fault not in ("raise", "skip", "replace"):
            raise ValueError(f"on_fault must be one of raise, skip, replace; got {self.on_fault!r}")
        check_layout(self.layout)


def threads_of(settings: FeedSettings) -> int:
    """How many threads make batches, in all processes together."""
    return max(settings.workers.threads or available_cores(), settings.workers.processes)


def prepare(split: Split, settings: FeedSettings, pool: Any = None) -> tuple[Maker, Schedule]:
    """The maker of batches, in memory from `pool` if that is given, and the schedule that says which to make."""
    order = settings.order
    shuffled_in_blocks = None if order.block is None else order.block * order.window
    if settings.on_fault == "raise":
        split.shards.check()
    is_once = settings.epochs == 1 and order.world == 1
    split.shards.begin(shuffled_among=shuffled_in_blocks if order.shuffle else 0, is_once=is_once)
    for join in split.joins:
        join.split.shards.begin(shuffled_among=None)
    wanted = split.wanted(settings.columns)
    sampler = sampler_of(split, order)
    pack: Pack | None = None
    lengths = None
    for step in settings.layout:
        if isinstance(step, Bucket | Pack):
            lengths = split.lengths(step.feature)
        if isinstance(step, Bucket):
            sampler = bucketed(sampler, lengths, settings.batch_size, window=step.window, seed=order.seed)  # type: ignore[arg-type]
        pack = step if isinstance(step, Pack) else pack
    steps = Steps(sampler.size, settings.batch_size, order, settings.drop_last)
    at_once = 1 if settings.transforms or pack else _batches_at_once(split, _record_bytes(split), settings)
    maker = Maker(split, sampler, wanted, order.seed, settings.transforms, settings.layout, settings.on_fault)
    maker = maker if pool is None else replace(maker, pool=pool, place=pool.place)
    turns = settings.turn, settings.turns
    return maker, Schedule(steps, sampler, settings.epochs, at_once, pack, lengths if pack else None, *turns)


def _record_bytes(split: Split) -> float:
    """About how large a record is; infinite if there is none."""
    return split.shards.record_bytes() if len(split) else math.inf


def _batches_at_once(split: Split, row_bytes: float, settings: FeedSettings) -> int:
    """How many batches are made together: one, unless they are so small that starting each alone would cost more."""
    if math.isinf(row_bytes) or settings.workers.ahead == 1:
        return 1
    threads = threads_of(settings)
    is_scattered = settings.order.shuffle and isinstance(split.shards, FetchedShards)
    most = _FETCHED_RECORDS if is_scattered else _GROUP_RECORDS * threads
    records = min(most, min(_GROUP_BYTES * threads, _MOST_GROUP_BYTES) / (row_bytes + 1))
    return max(1, min(int(records // settings.batch_size), settings.workers.ahead or _GROUP_RECORDS))


def make_ahead(
    maker: Maker, schedule: Schedule, settings: FeedSettings, place: Place, *, first: int = 0, step: int = 1
) -> Ahead[MadeBatches]:
    """Make the batches of the schedule in threads, from a place on, ahead of the consumer.

    Of all groups, it makes number `first`, and every one that is a multiple of `step` later.
    """
    schedule = _with_groups(maker, schedule, settings)
    groups = maker.ahead(islice(schedule.groups(place), first, None, step))
    ahead = _share(_groups_ahead(settings, schedule), step) - 1
    return Ahead(maker, groups, threads=_share(threads_of(settings), step), ahead=ahead)


def _with_groups(maker: Maker, schedule: Schedule, settings: FeedSettings) -> Schedule:
    """The schedule with small batches made together where the core transforms them, which takes a look at a record."""
    if not settings.transforms or schedule.pack is not None or settings.workers.ahead is not None:
        return schedule
    if _batches_at_once(maker.split, _record_bytes(maker.split), settings) == 1:
        return schedule
    return replace(schedule, batches_at_once=_batches_at_once(maker.split, maker.row_bytes(), settings))


def _share(count: int, parts: int) -> int:
    return max(1, count // parts)


def _groups_ahead(settings: FeedSettings, schedule: Schedule) -> int:
    """How many groups of batches may be under way."""
    if settings.workers.ahead is not None:
        return max(1, settings.workers.ahead // schedule.batches_at_once)
    return 2 * threads_of(settings)


class ProcessesAhead:
    """The same in processes: each makes every N-th group, and they are asked in turn."""

    def __init__(self, split: Split, settings: FeedSettings, schedule: Schedule, place: Place) -> None:
        import cloudpickle  # handles lambdas and what __main__ defines

        count = settings.workers.processes
        settings = msgspec.structs.replace(settings, turn=schedule.turn)
        self.workers = [Worker() for _ in range(count)]
        self._turn = 0
        for number, worker in enumerate(self.workers):
            work: bytes | None = cloudpickle.dumps(_InProcess(split, settings, place, schedule.epochs, number))
            for _ in range(_share(_groups_ahead(settings, schedule), count)):
                worker.send(work, None)
                work = None

    def __next__(self) -> MadeBatches:
        worker = self.workers[self._turn]
        try:
            made: MadeBatches | None = worker.receive()
        except WorkerEnded as error:
            raise BushelError(f"{error.message} while it made batches", help=[_FEWER]) from None
        if made is None:
            raise StopIteration
        worker.send(None, None)  # nothing is made without a request
        self._turn = (self._turn + 1) % len(self.workers)
        return made

    def close(self) -> None:
        """End the processes."""
        for worker in self.workers:
            worker.end()


_FEWER = "If memory ran out: fewer processes, smaller batches, or Workers(ahead=...) keep less of it."


class _InProcess:
    """What a process does when it is asked for more."""

    def __init__(self, split: Split, settings: FeedSettings, place: Place, epochs: int | None, number: int) -> None:
        self._given = split, settings, place, epochs, number
        self._made: Ahead[MadeBatches] | None = None

    def __call__(self, _: None) -> MadeBatches | None:
        """The next result; None after the last."""
        if self._made is None:
            split, settings, place, epochs, number = self._given
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the process that asks has shown the warnings
                maker, schedule = prepare(split, settings)
            step = settings.workers.processes
            self._made = make_ahead(maker, replace(schedule, epochs=epochs), settings, place, first=number, step=step)
        return next(self._made, None)
