"""Who makes batches: threads, in this process or in one of their own."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import msgspec

from bushel.parallel import Ahead, Worker, available_cores
from bushel.reading.batch import Made, Maker, OnFault, Place
from bushel.reading.dataset import Split
from bushel.reading.layout import Bucket, Layout, Pack, bucketed, check_layout
from bushel.reading.order import Order, sampler_of
from bushel.reading.schedule import Schedule, Steps

__all__ = ["ProcessAhead", "Settings", "Workers", "make_ahead", "prepare", "threads_of"]

# Small batches are made together, up to this size per thread and in all. Handing over a group takes the interpreter's
# lock a few times, whatever its size: the more threads wait for that lock, the larger groups must be.
_GROUP_BYTES = 512 << 10
_MOST_GROUP_BYTES = 8 << 20
_GROUP_RECORDS = 8192


class Workers(msgspec.Struct, frozen=True, kw_only=True):
    """Who makes the batches: `threads` (default: one per core), at most `ahead` batches before they are asked for.

    `process` runs the threads in a process of their own, for programs whose main thread keeps Python busy.
    """

    threads: int | None = None
    ahead: int | None = None
    process: bool = False

    def __post_init__(self) -> None:
        for name in ("threads", "ahead"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `batches` was given."""

    batch_size: int
    columns: Sequence[str] | None
    order: Order
    transforms: tuple[Any, ...]
    epochs: int | None
    layout: tuple[Layout, ...]
    drop_last: bool
    on_fault: OnFault
    workers: Workers

    def __post_init__(self) -> None:
        if self.epochs is not None and self.epochs < 1:
            raise ValueError(f"epochs must be at least 1 or None, got {self.epochs}")
        if self.on_fault not in ("raise", "skip", "replace"):
            raise ValueError(f"on_fault must be one of raise, skip, replace; got {self.on_fault!r}")
        check_layout(self.layout)


def threads_of(settings: Settings) -> int:
    """How many threads make batches."""
    return settings.workers.threads or available_cores()


def prepare(split: Split, settings: Settings) -> tuple[Maker, Schedule]:
    """What makes batches, and the schedule that says which."""
    order = settings.order
    shuffled_in_blocks = None if order.block is None else order.block * order.window
    if settings.on_fault == "raise":
        split.shards.check()
    split.shards.begin(shuffled_among=shuffled_in_blocks if order.shuffle else 0)
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
    at_once = 1 if settings.transforms or pack else _batches_at_once(split, settings)
    maker = Maker(split, sampler, wanted, order.seed, settings.transforms, settings.layout, settings.on_fault)
    return maker, Schedule(steps, sampler, settings.epochs, at_once, pack, lengths if pack else None)


def _batches_at_once(split: Split, settings: Settings) -> int:
    """How many batches are made together: one, unless they are so small that starting each would cost more."""
    if len(split) == 0 or settings.workers.ahead == 1:
        return 1
    lengths = split.shards.shards[0].index.lengths[:64]
    mean = float(lengths.mean()) if len(lengths) else 0.0
    threads = threads_of(settings)
    records = min(_GROUP_RECORDS * threads, min(_GROUP_BYTES * threads, _MOST_GROUP_BYTES) / (mean + 1))
    return max(1, min(int(records // settings.batch_size), settings.workers.ahead or _GROUP_RECORDS))


def make_ahead(maker: Maker, schedule: Schedule, settings: Settings, place: Place) -> Ahead[Made]:
    """Make what the schedule says in threads, from a place on, ahead of whoever asks for it."""
    groups = maker.ahead(schedule.groups(place))
    ahead = _groups_ahead(settings, schedule) - 1
    return Ahead(maker, groups, threads=threads_of(settings), ahead=ahead)


def _groups_ahead(settings: Settings, schedule: Schedule) -> int:
    """How many groups of batches may be under way."""
    if settings.workers.ahead is not None:
        return max(1, settings.workers.ahead // schedule.batches_at_once)
    return 2 * threads_of(settings)


class ProcessAhead:
    """The same in a process of its own, for programs whose main thread keeps Python busy."""

    def __init__(self, split: Split, settings: Settings, schedule: Schedule, place: Place) -> None:
        import cloudpickle  # takes lambdas and what __main__ defines

        self.worker = Worker()
        work: bytes | None = cloudpickle.dumps(_InProcess(split, settings, place, schedule.epochs))
        for _ in range(_groups_ahead(settings, schedule)):
            self.worker.send(work, None)
            work = None

    def __next__(self) -> Made:
        made: Made | None = self.worker.receive()
        if made is None:
            raise StopIteration
        self.worker.send(None, None)  # never more is made than was asked for
        return made

    def close(self) -> None:
        """End the process."""
        self.worker.end()


class _InProcess:
    """What the process does when it is asked for more."""

    def __init__(self, split: Split, settings: Settings, place: Place, epochs: int | None) -> None:
        self._given = split, settings, place, epochs
        self._made: Ahead[Made] | None = None

    def __call__(self, _: None) -> Made | None:
        """The next that was made; None after the last."""
        if self._made is None:
            split, settings, place, epochs = self._given
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the process that asks has shown them
                maker, schedule = prepare(split, settings)
            self._made = make_ahead(maker, schedule.through(epochs), settings, place)
        return next(self._made, None)
