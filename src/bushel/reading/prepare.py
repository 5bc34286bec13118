"""What `batches` was told, turned into what makes batches and what says which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from bushel.parallel.threads import available_cores
from bushel.reading.batch import Maker, OnFault
from bushel.reading.dataset import Split
from bushel.reading.layout import Bucket, Layout, Pack, bucketed, check_layout
from bushel.reading.order import Order, sampler_of
from bushel.reading.plan import Plan
from bushel.reading.steps import Steps

__all__ = ["Settings", "Workers", "prepare", "tasks_ahead", "threads_of"]

_TASK_BYTES = 512 << 10  # small batches are made together up to this size, which a core's cache holds
_TASK_RECORDS = 8192


class Workers(msgspec.Struct, frozen=True, kw_only=True):
    """Who makes the batches: so many threads (default: one a core), at most `ahead` batches before they are asked for.

    `process` puts them into a process of their own, for programs whose main thread keeps Python busy.
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
    """All that `batches` was told."""

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


def tasks_ahead(settings: Settings, batches_at_once: int) -> int:
    """How many pieces of work may be done before they are asked for."""
    if settings.workers.ahead is not None:
        return max(1, settings.workers.ahead // batches_at_once)
    return 2 * threads_of(settings)


def prepare(split: Split, settings: Settings) -> tuple[Maker, Plan]:
    """What makes batches, and what says which."""
    order = settings.order
    shuffled_in_blocks = None if order.block is None else order.block * order.window
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
    return maker, Plan(steps, sampler, settings.epochs, at_once, pack, lengths if pack else None)


def _batches_at_once(split: Split, settings: Settings) -> int:
    """How many batches one piece of work makes: one, unless they are so small that beginning it would cost more."""
    if len(split) == 0 or settings.workers.ahead == 1:
        return 1
    lengths = split.shards.shards[0].index.lengths[:64]
    mean = float(lengths.mean()) if len(lengths) else 0.0
    records = min(_TASK_RECORDS, _TASK_BYTES / (mean + 1))
    return max(1, int(records // settings.batch_size))
