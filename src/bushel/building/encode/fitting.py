"""Fitting: what transforms learn from the train split, in as few passes as they allow, before anything is written.

The plan decides which samples each task learns from, never the number of workers, and results are merged in the order
of tasks: the statistics are the same to the last bit however the build runs.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from bushel.building.encode.record_encoding import BlockEncoder
from bushel.building.planning.plan import Plan
from bushel.data.columns import splits_of, take
from bushel.data.samples import Sample
from bushel.data.splits import TRAIN, find
from bushel.errors import BushelError
from bushel.parallel import Helpers, do_all
from bushel.sources.protocol import Block, Source
from bushel.storage import write_whole
from bushel.transforms import Fit, Transform, fitted
from bushel.transforms.by_name import name_of
from bushel.transforms.fitted import Layer, Together, merge_in_order, merge_layer, needs_fit, next_layer

__all__ = [
    "Learner",
    "NothingLearnt",
    "check_learnt",
    "count_train",
    "fit_here",
    "fit_tasks",
    "learnt_blocks",
    "load_fits",
    "load_merged",
    "save_fits",
]

_TASK_BYTES = 64 << 20
_TASK_ROWS = 1 << 17


class NothingLearnt(BushelError):
    """The train split holds nothing to learn from."""


def train_places(plan: Plan) -> tuple[int, int]:
    """Where the train split begins and ends in the planned order."""
    names = dict.fromkeys(shard.split for shard in plan.facts.shards)
    train = find(names, TRAIN)
    if train is None:
        raise NothingLearnt(
            f"transforms are fitted on the split {TRAIN!r}, and there is none; there are {', '.join(names)}"
        )
    shards = [shard for shard in plan.facts.shards if shard.split == train]
    return shards[0].first, shards[-1].end


def count_train(plan: Plan) -> int:
    """How many samples of the train split are planned."""
    first, end = train_places(plan)
    return end - first


def fit_tasks(plan: Plan, source: Source) -> tuple[list[int], int]:
    """The numbers of the tasks of one pass, and how many rows each has if a source reads at random.

    If it reads in sequence, they are numbers of partitions.
    """
    first, end = train_places(plan)
    rows = max(1, min(_TASK_ROWS, int(_TASK_BYTES / max(1.0, plan.facts.sample_bytes))))
    if source.reads == "random":
        return list(range(-(-(end - first) // rows))), rows
    place = np.asarray(plan.place)
    is_train = (place >= first) & (place < end)
    before = splits_of(is_train)[plan.starts]
    return [int(number) for number in np.flatnonzero(np.diff(before))], rows


def learnt_blocks(plan: Plan, source: Source, number: int, step: int) -> Iterator[tuple[int, Block, NDArray[np.bool_]]]:
    """The blocks of one task, of `step` rows: their partition, and which of their rows are in the train split."""
    first, end = train_places(plan)
    if source.reads == "sequence":
        begin = int(plan.starts[number])
        place = np.asarray(plan.place[begin : int(plan.starts[number + 1])])
        is_train = (place >= first) & (place < end)
        for block in source.read(number, None):
            if block.is_repeat:
                continue
            rows = np.asarray(block.rows, np.int64)
            listed = rows < len(is_train)
            yield number, block, listed & is_train[np.where(listed, rows, 0)]
        return
    # By row, not in planned order: neighbours are read together.
    rows = np.sort(plan.order[first:end])[number * step : (number + 1) * step]
    partitions = plan.partition_of(rows)
    if plan.facts.originals:  # nothing is learned from samples that are repeated or made from others
        numbers = plan.origins(partitions, rows - plan.starts[partitions])[1]
        rows, partitions = rows[numbers == 0], partitions[numbers == 0]
    for partition in np.unique(partitions).tolist():
        wanted = rows[partitions == partition] - plan.starts[partition]
        for block in source.read(partition, wanted):
            yield partition, block, np.ones(len(block.rows), bool)


class Learner(fitted.Learner):
    """What the transforms of one layer have learned from blocks so far."""

    def __init__(self, encoder: BlockEncoder, layer: Layer) -> None:
        super().__init__(encoder.transforms, layer, encoder.seed)
        self.encoder = encoder

    def add_block(self, block: Block, hashes: NDArray[np.uint64], wanted: NDArray[np.bool_]) -> int:
        """Learn from the wanted rows, except those that will be refused. Returns how many there were."""
        columns, refused = self.encoder.coded(block)
        keep = np.array(wanted)
        keep[[place for place, _ in refused]] = False
        if not keep.any():
            return 0
        if not keep.all():
            columns = {name: take(column, np.flatnonzero(keep)) for name, column in columns.items()}
            hashes = hashes[keep]
        self.add(columns, self.encoder.coded_features(), hashes)
        return int(keep.sum())


def save_fits(path: Path, fits: Sequence[Fit] | Sequence[Transform], *, durable: bool) -> None:
    """Write what was learned; like runs, it may never reach the disk unless `durable`."""
    path.parent.mkdir(exist_ok=True)
    with write_whole(path, sync=durable) as file:
        file.write(cloudpickle.dumps(fits))


def load_fits(path: Path) -> Any:
    """What `save_fits` wrote."""
    return pickle.loads(path.read_bytes())


_MERGED_TOGETHER = 32  # a power of two, so that merging in groups gives the same tree as `merge_in_order`


def load_merged(paths: Sequence[Path], helpers: Helpers = None) -> Iterator[list[Any]]:
    """What tasks learned, in their order; if there are many, helpers merge them in groups."""
    groups = [paths[at : at + _MERGED_TOGETHER] for at in range(0, len(paths), _MERGED_TOGETHER)]
    if helpers is None or len(groups) < 2:
        return map(load_fits, paths)
    return iter(do_all(helpers, _merge_saved, groups))


def _merge_saved(paths: Sequence[Path]) -> list[Any]:
    merged: Any = merge_in_order(Together(load_fits(path)) for path in paths)  # type: ignore[misc]
    fits: list[Any] = merged.fits
    return fits


def check_learnt(transforms: Sequence[Transform]) -> None:
    """Refuse a fit without any samples: its values would be made up."""
    for transform in transforms:
        if getattr(getattr(transform, "fitted", None), "count", None) == 0:
            name, feature = name_of(type(transform)), getattr(transform, "feature", "")
            raise NothingLearnt(f"transform {name}: {feature!r} has no value in the train split to learn from")


def fit_here(encoder: BlockEncoder, samples: Sequence[Sample], hashes: Sequence[int]) -> list[Transform]:
    """The transforms fitted to a few samples: enough to see what records will look like."""
    while any(map(needs_fit, encoder.transforms)):
        learner = Learner(encoder, next_layer(encoder.transforms))
        learner.add_samples(samples, hashes)
        made = merge_layer(encoder.transforms, learner.layer, iter([learner.fits]))
        encoder = replace(encoder, transforms=made)
    return list(encoder.transforms)
