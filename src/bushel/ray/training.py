"""`batches` in the workers of Ray Train: each rank has its own, and all have as many."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bushel.errors import BushelError
from bushel.ray.cluster import require_ray
from bushel.reading import Dataset, Feed, Order, Split
from bushel.reading import batches as read_batches

__all__ = ["batches"]


def batches(data: Split | Dataset, *, batch_size: int, order: Order | None = None, **options: Any) -> Feed:
    """Read this worker's share of the records; called in the loop that Ray Train runs on every worker.

    It is `bushel.batches` with the rank and the number of workers that Ray Train tells. Every rank has the same number
    of steps; `order` says how (`uneven`), and its seed must be the same on all of them.

    >>> def loop(config):
    ...     train = bushel.open("data")["train"]
    ...     for batch in bushel.ray.batches(train, batch_size=64, order=bushel.Order(shuffle=True, seed=0)):
    ...         batch["x"], batch["label"]
    """
    rank, world = _place()
    order = order or Order()
    if (order.rank, order.world) not in ((0, 1), (rank, world)):
        raise ValueError(f"order must leave rank and world to Ray Train ({rank} of {world}), got {order}")
    return read_batches(data, batch_size=batch_size, order=replace(order, rank=rank, world=world), **options)


def _place() -> tuple[int, int]:
    """The rank of this worker, and how many there are."""
    require_ray("bushel.ray.batches")
    try:
        from ray import train
    except ImportError:
        raise ImportError('bushel.ray.batches needs Ray Train: pip install "ray[train]"') from None
    try:
        context = train.get_context()
        return context.get_world_rank(), context.get_world_size()
    except (RuntimeError, AttributeError, ValueError):
        raise BushelError("bushel.ray.batches is called in a worker of Ray Train; elsewhere: bushel.batches") from None
