"""Blocks of samples to records: labels, transforms, checks, bytes; and what transforms learn from blocks."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from bushel.building.planning.plan import Plan
from bushel.data.categories import Labels
from bushel.data.columns import Column, splits_of, take
from bushel.data.encoding import Constraint, FramedRecords, Narrowings, RecordEncoder
from bushel.data.samples import Sample, check_sample, sample_at, to_columns
from bushel.data.schema import Feature, Schema
from bushel.data.splits import TRAIN, find
from bushel.errors import BushelError, MissingName, SchemaMismatch, reason_of
from bushel.parallel import Helpers, do_all
from bushel.sources.protocol import Block, Refused, Source
from bushel.storage import write_whole
from bushel.transforms import Fit, Transform
from bushel.transforms.by_name import name_of
from bushel.transforms.chain import (
    Chain,
    Layer,
    LayerLearner,
    Together,
    merge_in_order,
    merge_layer,
    needs_fit,
    next_layer,
)
from bushel.transforms.interface import declared

__all__ = [
    "BlockEncoder",
    "BlockLearner",
    "Encoded",
    "NotDecoded",
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


class NotDecoded(Exception):
    """Some images of a block cannot be decoded: which, the block finds out itself."""


class Encoded(NamedTuple):
    """The records of a block, what was refused, and what was lost on the way."""

    records: FramedRecords | None  # None if all were refused
    refused: list[Refused]
    counted: Counter[str]  # what transforms cut or did not know
    narrowings: Narrowings


@dataclass(frozen=True)
class BlockEncoder:
    """Turns blocks into records by a recipe. It is a value: use `dataclasses.replace` to change it."""

    source_schema: Schema
    schema: Schema
    labels: Labels | None = None
    constraints: Mapping[str, Constraint] = field(default_factory=dict)
    transforms: Sequence[Transform] = ()
    seed: int = 0
    augment: Sequence[Transform] = ()  # for repeated samples, after the transforms

    @property
    def records(self) -> RecordEncoder:
        """How columns become records."""
        return RecordEncoder(self.schema, self.labels, self.constraints)

    @property
    def chain(self) -> Chain:
        """The transforms of every sample."""
        return Chain.of(self.transforms, self.seed)

    @property
    def variation(self) -> Chain:
        """The changes to repeated samples, after the transforms."""
        return Chain.of(self.augment, self.seed, first=len(self.transforms))

    def encode(
        self,
        block: Block,
        hashes: NDArray[np.uint64],
        wanted: NDArray[np.bool_],
        known: Mapping[int, Sample] = MappingProxyType({}),
    ) -> Encoded:
        """The records of the wanted rows, and the refused ones; `hashes` are those of the rows' keys.

        `known` are samples that are already transformed, by the hash of their key. Raises `NotDecoded` if images were
        to be decoded here, and not all of them can be.
        """
        rows = np.asarray(block.rows, np.int64)
        columns, refused = self.coded(block)
        if block.decoded is not None and (refused or not wanted.all()):
            raise NotDecoded
        refused = [(place, why) for place, why in refused if wanted[place]]
        places = np.arange(len(rows))
        left_out = set(np.flatnonzero(~wanted).tolist())
        counted, narrowings = Counter[str](), Narrowings()
        varies = block.is_repeat and bool(self.augment)
        if self.transforms or varies:
            places = _without(np.flatnonzero(wanted), refused)
            changed = None if varies or known else self._transform_columns(columns, places, counted)
            if changed is None and block.decoded is not None:
                raise NotDecoded
            if changed is None:
                variation = self.variation if varies else None
                changed, failed = self._transform_samples(columns, places, hashes, known, variation, counted)
                refused += failed
                places = _without(places, failed)
            columns, left_out = changed, set()
        else:
            left_out |= {place for place, _ in refused}
        records, broken = self.records.encode(columns, rows[places], left_out, narrowings)
        refused += [(int(places[at]), _refusal("schema", why)) for at, why in broken]
        return Encoded(records, _one_each(refused, rows, wanted), counted, narrowings)

    @property
    def decodes(self) -> str:
        """The feature whose images are decoded before anything else is done with them; none if there is no such one."""
        return declared(self.transforms[0]).decodes if self.transforms and not self.augment else ""

    def coded(self, block: Block) -> tuple[dict[str, Column], list[tuple[int, Refused]]]:
        """The columns of a block with labels as codes, and the places whose label cannot be used."""
        features = self.source_schema.features
        for name in block.columns:
            if name not in features:
                raise MissingName("feature", name, features, where="source")
        columns, refused = self.records.coded(block.columns)
        return columns, [(place, _refusal("schema", why)) for place, why in refused]

    def _transform_samples(
        self,
        columns: dict[str, Column],
        places: NDArray[np.int64],
        hashes: NDArray[np.uint64],
        known: Mapping[int, Sample],
        variation: Chain | None,
        counted: Counter[str],
    ) -> tuple[dict[str, Any], list[tuple[int, Refused]]]:
        """The samples at these places after their transforms, as columns, and those that could not be transformed."""
        chain = self.chain
        features: Mapping[str, Feature] = self.coded_features()
        columns = _taken(columns, places)
        if not known and not all(declared(step).in_core for step in self.transforms):  # whole columns were tried before
            columns, features, chain = chain.begin(columns, features, counted)
        samples, refused = [], []
        for at, place in enumerate(places.tolist()):
            key_hash, noted = int(hashes[place]), Counter[str]()
            try:
                sample = known.get(key_hash)
                if sample is None:
                    sample = chain.apply(sample_at(columns, features, at), record=key_hash, counted=noted)
                if variation is not None:
                    sample = variation.vary(sample, record=key_hash, counted=noted)
                samples.append(check_sample(sample, self.schema.features))
                counted.update(noted)
            except SchemaMismatch as error:
                refused.append((place, _refusal("schema", error.message)))
            except Exception as error:  # any error counts against this sample, unless all samples fail
                refused.append((place, _refusal("transform", reason_of(error))))
        return to_columns(samples, self.schema.features), refused

    def _transform_columns(
        self, columns: dict[str, Column], places: NDArray[np.int64], counted: Counter[str]
    ) -> dict[str, Column] | None:
        """All rows at once, if every transform can do that and no row is at fault."""
        noted = Counter[str]()
        changed = self.chain.apply_columns(_taken(columns, places), noted)
        if changed is None or not all(name in self.schema for name in changed):
            return None
        counted.update(noted)
        return changed

    def coded_features(self) -> dict[str, Feature]:
        """The features of the source, with the encoded label."""
        features = dict(self.source_schema.features)
        if self.labels is not None and self.labels.feature in features:
            features[self.labels.feature] = self.labels.stored(features[self.labels.feature])
        return features


def _taken(columns: dict[str, Column], places: NDArray[np.int64]) -> dict[str, Column]:
    """Only these places of the columns, which are in order."""
    rows = len(next(iter(columns.values()))) if columns else 0
    return columns if len(places) == rows else {name: take(column, places) for name, column in columns.items()}


def _refusal(stage: str, why: str) -> Refused:
    return Refused(-1, stage, why)


def _without(places: NDArray[np.int64], refused: list[tuple[int, Refused]]) -> NDArray[np.int64]:
    return np.setdiff1d(places, [place for place, _ in refused]) if refused else places


def _one_each(refused: list[tuple[int, Refused]], rows: Any, wanted: Any) -> list[Refused]:
    """The first reason of each refused row, by row."""
    found: dict[int, Refused] = {}
    for place, why in refused:
        if wanted[place] and place not in found:
            found[place] = why._replace(row=int(rows[place]))
    return [found[place] for place in sorted(found)]


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


class BlockLearner(LayerLearner):
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
            name, feature = name_of(type(transform)), declared(transform).feature
            raise NothingLearnt(f"transform {name}: {feature!r} has no value in the train split to learn from")


def fit_here(encoder: BlockEncoder, samples: Sequence[Sample], hashes: Sequence[int]) -> list[Transform]:
    """The transforms fitted to a few samples: enough to see what records will look like."""
    while any(map(needs_fit, encoder.transforms)):
        learner = BlockLearner(encoder, next_layer(encoder.transforms))
        learner.add_samples(samples, hashes)
        made = merge_layer(encoder.transforms, learner.layer, iter([learner.fits]))
        encoder = replace(encoder, transforms=made)
    return list(encoder.transforms)
