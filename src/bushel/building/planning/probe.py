"""Probing a few samples, so that shards can be sized before all samples are read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.building.output.writer import compressor
from bushel.building.planning.plan import Plan, Rows
from bushel.building.record_encoding import BlockEncoder, fit_here
from bushel.data.columns import byte_size, roomy, steps, take
from bushel.data.encoding import FramedRecords, Narrowings, store, stored_schema
from bushel.data.roles import Account, take_account
from bushel.data.samples import Sample, check_sample, sample_at, to_columns
from bushel.data.schema import Feature, Schema
from bushel.data.splits import TRAIN, find
from bushel.errors import BushelError, FileProblem, reason_of
from bushel.parallel import map_in_threads, own_seconds
from bushel.records.record_roles import count_levels, key_feature
from bushel.sources.protocol import Block, Refused, Source
from bushel.storage.file_kinds import Compression
from bushel.transforms import Transform
from bushel.transforms.chain import needs_fit, touched
from bushel.transforms.interface import Declaring, declared

__all__ = ["NothingProbed", "Probe", "ToProbe", "probe", "probe_plan", "read_rows"]

SAMPLES = 256
_PARTITIONS = 4
_BYTES = 64 << 20  # fewer samples are enough if they are this large
_PART = 16  # samples that a helper reads at a time

PartitionRows: TypeAlias = tuple[int, Rows]  # a partition, and some of its rows
# Reads the rows of every part, in order; how long each took comes with it.
ReadRows: TypeAlias = Callable[[Sequence[PartitionRows]], Iterable[tuple[list[Block], float]]]


class NothingProbed(BushelError):
    """None of the probed samples can be used."""


@dataclass(frozen=True)
class Probe:
    """What was found from a few samples."""

    schema: Schema  # of records
    sizes: NDArray[np.int64]  # of every row of the source, estimated as a record
    seconds: float  # to read and encode one sample
    compressed: float = 1.0  # compressed bytes per byte of records
    account: Account | None = None  # what the features of the source are


class ToProbe(NamedTuple):
    """What is planned, and from which a few samples are probed."""

    source: Source
    order: Rows  # the rows that are planned, in their order
    train: tuple[int, int]  # where the train split is in that order
    partition_rows: list[int]
    hashes: NDArray[np.uint64]
    sizes: Rows | None  # of every row, if the source lists them
    compression: Compression | None = None  # of shards
    label_by: str = ""  # why a feature is the label

    @property
    def starts(self) -> Rows:
        """The first row of each partition, and the end."""
        return np.concatenate([[0], np.cumsum(self.partition_rows, dtype=np.int64)])


def probe_plan(source: Source, plan: Plan, encoder: BlockEncoder) -> Probe:
    """Probe the same samples again, once transforms are fitted."""
    name = find((shard.split for shard in plan.facts.shards), TRAIN)
    train = [shard for shard in plan.facts.shards if shard.split == name]
    places = (train[0].first, train[-1].end) if train else (0, 0)
    return probe(
        ToProbe(source, plan.order, places, plan.facts.partition_rows, plan.hashes, plan.sizes),
        encoder,
    )


def probe(given: ToProbe, encoder: BlockEncoder, read: ReadRows | None = None) -> Probe:
    """Read at most 256 samples, chosen by the seed, and encode them.

    Transforms that are not fitted yet are fitted, for now, to those of them that are in the train split. `read` reads
    rows of a source at random; by default, this process does.
    """
    blocks, reading = _blocks(given, read)
    begun, busy = own_seconds(), time.process_time()
    if any(map(needs_fit, encoder.transforms)):
        encoder = replace(encoder, transforms=_fitted_for_now(given, encoder, blocks))
    schema, known = _schema(given, encoder, blocks)
    encoder = replace(encoder, schema=schema)
    records, rows, refused = _encoded(given, encoder, blocks, known)
    if not rows:
        first = f"The first: {refused[0].stage}: {refused[0].reason}" if refused else "The source gave none of them."
        raise NothingProbed(f"every sample that was probed ({len(refused):,}) was refused", help=[first])
    found = np.concatenate([some.lengths for some in records])
    spent = max(own_seconds() - begun, time.process_time() - busy)  # it waits for files, or works in threads
    seconds = (reading + spent) / max(1, len(found) + len(refused))
    sizes = _sizes(given, np.concatenate(rows), found)
    return Probe(schema, sizes, seconds, _compressed(records, given.compression), _account(given, encoder, blocks))


def _account(given: ToProbe, encoder: BlockEncoder, blocks: list[tuple[int, Block]]) -> Account:
    """What the features of the source are, before transforms."""
    schema = encoder.source_schema
    places = ((block, row) for _, block in blocks for row in range(len(block.rows)))
    looked_at = []
    for block, row in islice(places, SAMPLES):
        with suppress(UnicodeDecodeError):  # text in another encoding, which is refused when it is written
            looked_at.append(sample_at(block.columns, schema.features, row))
    label = encoder.labels.feature if encoder.labels is not None else None
    return take_account(
        schema,
        looked_at,
        declared=label,
        declared_by=given.label_by,
        key=key_feature(given.source.describe()),
        names=["label"],
        levels_of=count_levels,
    )


def _compressed(records: list[FramedRecords], compression: Compression | None) -> float:
    """The compression ratio of the probed records."""
    if (compress := compressor(compression)) is None:
        return 1.0
    left = sum(len(compress.compress(some.data)) for some in records) + len(compress.flush())
    return left / max(1, sum(len(some.data) for some in records))


def _encoded(
    given: ToProbe, encoder: BlockEncoder, blocks: list[tuple[int, Block]], known: Mapping[int, Sample]
) -> tuple[list[FramedRecords], list[Rows], list[Refused]]:
    starts, rows, records = given.starts, [], []
    refused: list[Refused] = []
    for partition, block in blocks:
        hashes = given.hashes[starts[partition] + block.rows]
        encoded = encoder.encode(block, hashes, np.ones(len(block.rows), bool), known)
        refused += [*block.refused, *encoded.refused]
        if encoded.records is not None:
            rows.append(starts[partition] + encoded.records.rows)
            records.append(encoded.records)
    return records, rows, refused


def _blocks(given: ToProbe, read: ReadRows | None) -> tuple[list[tuple[int, Block]], float]:
    """The samples to probe, with their partitions, and how long it takes to read them."""
    source = given.source
    if source.reads == "random":
        rows = np.asarray(given.order)
        picked = rows[:: max(1, len(rows) // SAMPLES)][:SAMPLES]
        starts = given.starts
        partitions = np.searchsorted(starts, picked, side="right") - 1
        # In threads, parts may not be so large that the last ones are left out: where that is depends on the parts.
        in_threads = source.any_thread and given.sizes is not None
        in_threads = in_threads and int(np.asarray(given.sizes)[picked].sum()) < _BYTES // 2
        wanted = [
            (partition, some)
            for partition in np.unique(partitions).tolist()
            for some in _in_parts(
                picked[partitions == partition] - starts[partition], _PART if read or in_threads else SAMPLES
            )
        ]
        read = read or partial(_read_in_threads if in_threads else _read_here, source)
        found, seen, spent = [], 0, 0.0
        for (partition, _), (blocks, seconds) in zip(wanted, read(wanted), strict=False):
            spent += seconds
            for block in blocks:
                found.append((partition, block))
                if (seen := seen + sum(map(byte_size, block.columns.values()))) > _BYTES:
                    return found, spent
        return found, spent
    filled = np.flatnonzero(given.partition_rows)
    picked = filled[:: max(1, len(filled) // _PARTITIONS)][:_PARTITIONS]
    begun = own_seconds()
    first_of = partial(_first_rows, source, given.partition_rows)
    if source.any_thread:  # a table may have to be parsed far beyond its first rows
        firsts = list(map_in_threads(first_of, picked.tolist()))
    else:
        firsts = [(partition, first_of(partition)) for partition in picked.tolist()]
    return firsts, own_seconds() - begun


def _in_parts(rows: Rows, size: int) -> list[Rows]:
    return [rows[at : at + size] for at in range(0, len(rows), size)]


def _read_here(source: Source, wanted: Sequence[PartitionRows]) -> Iterator[tuple[list[Block], float]]:
    for some in wanted:
        yield read_rows(source, some)


def _read_in_threads(source: Source, wanted: Sequence[PartitionRows]) -> Iterator[tuple[list[Block], float]]:
    for _, found in map_in_threads(partial(read_rows, source), wanted):
        yield found


def read_rows(source: Source, wanted: PartitionRows) -> tuple[list[Block], float]:
    """The blocks of some rows of a partition, and how long they took."""
    begun = own_seconds()
    return list(source.read(*wanted)), own_seconds() - begun


def _first_rows(source: Source, partition_rows: list[int], partition: int) -> Block:
    """The beginning of a partition that is read in sequence."""
    blocks = source.read(partition, None)
    block = next(iter(blocks))
    if (close := getattr(blocks, "close", None)) is not None:
        close()
    keep = np.flatnonzero(np.asarray(block.rows) < partition_rows[partition])[: SAMPLES // _PARTITIONS]
    columns = {name: take(column, keep) for name, column in block.columns.items()}
    return Block(np.asarray(block.rows)[keep], columns, block.refused[:1])


def _samples(given: ToProbe, encoder: BlockEncoder, blocks: list[tuple[int, Block]]) -> Iterator[tuple[Sample, int]]:
    """The samples of blocks as transforms receive them, and their rows."""
    features, starts = encoder.coded_features(), given.starts
    for partition, block in blocks:
        columns, bad = encoder.coded(block)
        for place in sorted(set(range(len(block.rows))) - {place for place, _ in bad}):
            yield sample_at(columns, features, place), int(starts[partition] + block.rows[place])


def _fitted_for_now(given: ToProbe, encoder: BlockEncoder, blocks: list[tuple[int, Block]]) -> list[Transform]:
    first, end = given.train
    train = set(np.asarray(given.order[first:end]).tolist())
    samples = list(_samples(given, encoder, blocks))
    chosen = [(sample, row) for sample, row in samples if row in train] or samples
    return fit_here(encoder, [sample for sample, _ in chosen], [int(given.hashes[row]) for _, row in chosen])


def _schema(given: ToProbe, encoder: BlockEncoder, blocks: list[tuple[int, Block]]) -> tuple[Schema, dict[int, Sample]]:
    """The schema of records, and the samples that were transformed to learn it, by the hash of their key."""
    if not encoder.transforms:
        schema = stored_schema(encoder.source_schema, encoder.labels, None)
        if encoder.augment:
            _check_augment(encoder, (sample for sample, _ in _samples(given, encoder, blocks)), schema)
        return schema, {}
    known, error = _transformed(given, encoder, blocks)
    samples = list(known.values())
    if not samples and error is not None:
        raise _failing("transforms", error)
    schema = stored_schema(encoder.source_schema, encoder.labels, samples)
    schema = _with_required(_as_declared(schema, encoder.transforms), encoder.transforms)
    if encoder.augment:
        _check_augment(encoder, samples, schema)
    return schema, known  # so that images are not resized twice just for their size


def _transformed(
    given: ToProbe, encoder: BlockEncoder, blocks: list[tuple[int, Block]]
) -> tuple[dict[int, Sample], Exception | None]:
    """The samples after their transforms, by the hash of their key, and an error of those that failed."""
    if all(declared(transform).decodes for transform in encoder.transforms):
        found = list(map_in_threads(partial(_resized, given, encoder), blocks))
        if all(samples is not None for _, samples in found):
            return {key_hash: sample for _, samples in found for key_hash, sample in (samples or {}).items()}, None
    chain = encoder.chain

    def transform(sample_and_row: tuple[Sample, int]) -> Sample | Exception:
        sample, row = sample_and_row
        try:
            return chain.apply(sample, record=int(given.hashes[row]))
        except Exception as raised:  # perhaps only of some samples
            return raised

    samples = _samples(given, encoder, blocks)
    if all(declared(step).in_core for step in encoder.transforms):  # images are slow, and the core leaves Python alone
        done: Iterable[tuple[tuple[Sample, int], Sample | Exception]] = map_in_threads(transform, samples)
    else:
        done = ((one, transform(one)) for one in samples)
    known, error = {}, None
    for (_, row), made in done:
        if isinstance(made, Exception):
            error = made
        else:
            known[int(given.hashes[row])] = made
    return known, error


def _resized(given: ToProbe, encoder: BlockEncoder, one: tuple[int, Block]) -> dict[int, Sample] | None:
    """The samples of a block whose images are encoded again, all at once in the core; None if one of them fails."""
    partition, block = one
    columns, bad = encoder.coded(block)
    changed = None if bad else encoder.chain.apply_columns(columns)
    if changed is None:
        return None
    hashes = given.hashes[given.starts[partition] + block.rows].tolist()
    features = encoder.coded_features()  # they have other values, and the same types
    return {key_hash: sample_at(changed, features, place) for place, key_hash in enumerate(hashes)}


def _check_augment(encoder: BlockEncoder, samples: Iterable[Sample], schema: Schema) -> None:
    """Refuse an augmentation that fails on every sample: all repeats would be refused."""
    error = None
    names = {declared(transform).feature for transform in encoder.augment}
    for sample in samples:
        try:
            varied = encoder.variation.vary(sample)
            columns = to_columns([check_sample(varied, schema.features)], schema.features)
            for name in names & columns.keys():
                store(name, schema.features[name], columns[name], Narrowings())
            return
        except Exception as raised:  # perhaps another works
            error = raised
    if error is not None:
        raise _failing("augmentations", error)


def _failing(what: str, error: Exception) -> Exception:
    if isinstance(error, FileProblem | ImportError):  # a missing file or package fails for every sample
        return error
    help = error.help if isinstance(error, BushelError) else ()
    return NothingProbed(f"{what} fail on every sample probed: {reason_of(error)}", help=help)


def _with_required(schema: Schema, transforms: Sequence[Transform]) -> Schema:
    """The schema, with features that a transform gives to every sample marked as required."""
    names = {name for transform in transforms for name in declared(transform).always}
    features = {
        name: msgspec.structs.replace(feature, required=True) if name in names else feature
        for name, feature in schema.features.items()
    }
    return msgspec.structs.replace(schema, features=features)


def _as_declared(schema: Schema, transforms: Sequence[Transform]) -> Schema:
    """A schema found from samples, with what transforms declare, unless a later one changes it."""
    made: dict[str, Feature] = {}
    features = dict(schema.features)
    for transform in transforms:
        names = touched(transform)
        for name in features if names is None else names & features.keys():  # what the source said of them is over
            features[name] = msgspec.structs.replace(features[name], reads_as="", pixels=())
        made = {name: feature for name, feature in made.items() if names is not None and name not in names}
        made |= dict(transform.makes()) if isinstance(transform, Declaring) else {}
    features |= {name: feature for name, feature in made.items() if name in features}
    for transform in transforms:
        for name, dtype in declared(transform).encodes.items():
            if name in features and name not in made:
                features[name] = msgspec.structs.replace(features[name], dtype=dtype, encoding="raw")
    return msgspec.structs.replace(schema, features=features)


def _sizes(given: ToProbe, rows: Rows, lengths: Rows) -> Rows:
    """Estimate the sizes of all rows from the encoded ones. In integers, so that all machines cut the same shards."""
    mean = int(lengths.sum()) // len(lengths)
    listed = given.sizes
    if listed is not None:
        more = int(np.sort(lengths - listed[rows])[len(rows) // 2])
        if np.abs(listed[rows] + more - lengths).sum() < np.abs(mean - lengths).sum():
            sizes = roomy(len(listed), np.int64)
            for some in steps(len(listed)):
                sizes[some] = np.maximum(listed[some] + more, 1)
            return sizes
    return np.broadcast_to(np.int64(max(mean, 1)), len(given.hashes))
