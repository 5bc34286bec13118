"""A dataset for Ray Data: decoded by the core, one range of records per task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from bushel.data.columns import BytesColumn, Column, Ragged
from bushel.data.schema import Feature
from bushel.errors import BushelError, missing_package
from bushel.feeding.adapters import Data, open_split
from bushel.ray.cluster import require_ray
from bushel.reading import Dataset, Feed, Order, Split
from bushel.reading import batches as read_batches

__all__ = ["batches", "dataset"]


_BLOCK_BYTES = 32 << 20  # bytes of records decoded at a time


def dataset(
    data: Data,
    split: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    **options: Any,
) -> Any:
    """A `ray.data.Dataset` of a split: columns in Arrow, read by free nodes.

    `data` is what `bushel.open` takes or returns; `split` may be left out if there is only one. `columns` chooses
    features. Options are those of `ray.data.read_datasource`: `override_num_blocks`, `concurrency`, `num_cpus`. Tensors
    are Ray's tensor columns, lists are lists, and damage is an error.

    >>> bushel.ray.dataset("data", "train").map_batches(prepare).iter_batches(batch_size=256)
    """
    require_ray("bushel.ray.dataset")
    try:
        from ray.data import read_datasource
    except ImportError:
        raise missing_package("Ray Data", extra="ray", purpose="bushel.ray.dataset") from None
    return read_datasource(_source_class()(open_split(data, split), columns), **options)


def _source_class() -> Any:
    """The class, made when Ray Data is loaded, since its base is Ray's."""
    from ray.data.block import BlockMetadata
    from ray.data.datasource import Datasource, ReadTask

    class BushelDatasource(Datasource):  # type: ignore[misc]
        """Ranges of the records of a split."""

        def __init__(self, split: Split, columns: Sequence[str] | None) -> None:
            super().__init__()
            split.wanted(columns)  # report unknown names now
            self.split, self.columns = split, columns
            self.record_bytes = _record_bytes(split)

        def get_name(self) -> str:
            return "Bushel"

        def estimate_inmemory_data_size(self) -> int | None:
            return int(self.record_bytes * len(self.split))

        def get_read_tasks(self, parallelism: int, per_task_row_limit: int | None = None, **_: Any) -> list[Any]:
            step = max(1, int(_BLOCK_BYTES / max(1.0, self.record_bytes)))
            return [
                ReadTask(
                    read,
                    BlockMetadata(rows, int(rows * self.record_bytes), files, None),
                    per_task_row_limit=per_task_row_limit,
                )
                for read, rows, files in _reads(self.split, self.columns, parallelism, step)
            ]

    return BushelDatasource


def _record_bytes(split: Split) -> float:
    """About how much memory a record takes."""
    shards = split.shards.shards
    total = sum(int(shard.index.lengths.sum(dtype=np.int64)) for shard in shards)
    return total / max(1, len(split.shards))


def _reads(
    split: Split, columns: Sequence[str] | None, parallelism: int, step: int
) -> Iterator[tuple[Callable[[], Iterator[Any]], int, list[str]]]:
    """For each task, what it reads, how many records that is, and from which files.

    If records can be read at random, tasks are ranges of the whole; a compressed shard is read by one task.
    """
    first = split.shards.first
    if split.rows is None and split.is_sequential:
        groups = np.array_split(np.arange(len(split.paths)), min(max(1, parallelism), len(split.paths)))
        for group in groups:
            part = Split(split.name, [split.paths[i] for i in group], split.schema, label=split.label)
            rows = int(first[group[-1] + 1] - first[group[0]])
            yield partial(_blocks, part, columns, 0, rows, step), rows, [str(path) for path in part.paths]
        return
    edges = np.linspace(0, len(split), max(1, min(parallelism, len(split))) + 1).astype(np.int64).tolist()
    for begin, end in pairwise(edges):
        if split.rows is not None:
            part, offset = split.select(np.arange(begin, end)), begin
        else:
            low, high = np.searchsorted(first, [begin, end - 1], side="right").tolist()
            part = Split(split.name, split.paths[low - 1 : high], split.schema, label=split.label)
            offset = int(first[low - 1])
        files = [str(path) for path in part.paths]
        yield partial(_blocks, part, columns, begin - offset, end - offset, step), end - begin, files


def _blocks(split: Split, columns: Sequence[str] | None, begin: int, end: int, step: int) -> Iterator[Any]:
    """Tables of the records [begin, end) of a split."""
    for at in range(begin, end, step):
        numbers = np.arange(at, min(at + step, end))
        rows = numbers if split.rows is None else split.rows[numbers]
        found = split.read(rows, columns)
        yield _table({name: (column, split.schema[name]) for name, column in found.items()})


def _table(columns: dict[str, tuple[Column, Feature]]) -> Any:
    import pyarrow as pa

    return pa.table({name: _array(column, feature) for name, (column, feature) in columns.items()})


def _array(column: Column, feature: Feature) -> Any:
    """A column as an Arrow array; memory is shared if possible."""
    import pyarrow as pa

    if isinstance(column, BytesColumn):
        return _bytes(column, feature)
    if isinstance(column, Ragged):
        return _ragged(column, feature)
    if column.ndim == 1:
        return pa.array(column)
    from ray.data.extensions import ArrowTensorArray

    return ArrowTensorArray.from_numpy(np.ascontiguousarray(column))


def _bytes(column: BytesColumn, feature: Feature) -> Any:
    import pyarrow as pa

    offsets = np.ascontiguousarray(column.offsets, np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(column.data))]
    kind = pa.large_string() if feature.dtype == "str" else pa.large_binary()
    return pa.Array.from_buffers(kind, len(column), buffers)


def _ragged(column: Ragged, feature: Feature) -> Any:
    import pyarrow as pa

    values = _array(column.values, feature)
    missing = None if column.present is None else ~np.asarray(column.present)
    if missing is not None and (np.asarray(column.lengths)[~missing] == 1).all() and not feature.is_ragged:
        places = np.cumsum(~missing) - 1
        return values.take(pa.array(np.where(missing, 0, places), mask=missing))
    offsets = pa.array(np.ascontiguousarray(column.row_splits, np.int64), mask=_offsets_mask(missing))
    return pa.LargeListArray.from_arrays(offsets, values)


def _offsets_mask(missing: Any) -> Any:
    return None if missing is None else np.append(missing, False)


def batches(data: Split | Dataset, *, batch_size: int, order: Order | None = None, **options: Any) -> Feed:
    """Read this worker's share of the records; called in the loop that Ray Train runs on every worker.

    It is `bushel.batches` with the rank and the number of workers from Ray Train. Every rank has the same number
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
