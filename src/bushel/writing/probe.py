"""A look at a few samples, so that shards can be cut to size before all of them are read."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bushel.columns import BytesColumn, Column, take
from bushel.errors import BushelError
from bushel.schema import Schema
from bushel.sources.protocol import Block, Refused, Source
from bushel.writing.blocks import BlockEncoder, stored_schema
from bushel.writing.labels import Labels
from bushel.writing.planning import Draft
from bushel.writing.samples import to_sample

__all__ = ["Probe", "probe"]

SAMPLES = 256
_PARTITIONS = 4
_BYTES = 64 << 20  # fewer samples are enough if they are this large


@dataclass(frozen=True)
class Probe:
    """What a few samples told."""

    schema: Schema  # of records
    sizes: NDArray[np.int64]  # of every row of the source, as a record, estimated
    seconds: float  # to read and encode one sample


def probe(draft: Draft, encoder: BlockEncoder) -> Probe:
    """Read at most 256 samples, as the seed says, and encode them."""
    begun = time.perf_counter()
    blocks = _blocks(draft)
    schema = _schema(encoder.source_schema, draft.listed.labels, encoder, blocks, draft)
    encoder.schema = schema
    starts = np.concatenate([[0], np.cumsum(draft.listed.partition_rows)])
    rows, lengths = [], []
    refused: list[Refused] = []
    for partition, block in blocks:
        hashes = draft.listed.hashes[starts[partition] + block.rows]
        pieces, bad = encoder.encode(block, hashes, np.ones(len(block.rows), bool))
        refused += [*block.refused, *bad]
        rows += [starts[partition] + piece.rows for piece in pieces]
        lengths += [piece.lengths for piece in pieces]
    if not rows:
        first = f"The first: {refused[0].stage}: {refused[0].reason}" if refused else "The source gave none of them."
        raise BushelError(f"all of the {len(refused)} samples that were probed were refused", help=[first])
    found = np.concatenate(lengths)
    seconds = (time.perf_counter() - begun) / max(1, len(found) + len(refused))
    return Probe(schema, _sizes(draft, np.concatenate(rows), found), seconds)


def _blocks(draft: Draft) -> list[tuple[int, Block]]:
    source, listed = draft.source, draft.listed
    if source.reads == "random":
        rows = np.concatenate(list(draft.ordered.values()))
        picked = rows[:: max(1, len(rows) // SAMPLES)][:SAMPLES]
        starts = np.concatenate([[0], np.cumsum(listed.partition_rows)])
        partitions = np.searchsorted(starts, picked, side="right") - 1
        found, seen = [], 0
        for partition in np.unique(partitions).tolist():
            wanted = picked[partitions == partition] - starts[partition]
            for block in source.read(partition, wanted):
                found.append((partition, block))
                if (seen := seen + _block_bytes(block)) > _BYTES:
                    return found
        return found
    filled = np.flatnonzero(listed.partition_rows)
    picked = filled[:: max(1, len(filled) // _PARTITIONS)][:_PARTITIONS]
    return [(partition, _first_rows(source, listed.partition_rows, partition)) for partition in picked.tolist()]


def _block_bytes(block: Block) -> int:
    return sum(_column_bytes(column) for column in block.columns.values())


def _column_bytes(column: Column) -> int:
    if isinstance(column, np.ndarray):
        return column.nbytes
    return column.data.nbytes if isinstance(column, BytesColumn) else _column_bytes(column.values)


def _first_rows(source: Source, partition_rows: list[int], partition: int) -> Block:
    """The beginning of a partition that is read in sequence."""
    blocks = source.read(partition, None)
    block = next(iter(blocks))
    if (close := getattr(blocks, "close", None)) is not None:
        close()
    keep = np.flatnonzero(np.asarray(block.rows) < partition_rows[partition])[: SAMPLES // _PARTITIONS]
    columns = {name: take(column, keep) for name, column in block.columns.items()}
    return Block(np.asarray(block.rows)[keep], columns, block.refused[:1])


def _schema(
    given: Schema, labels: Labels | None, encoder: BlockEncoder, blocks: list[tuple[int, Block]], draft: Draft
) -> Schema:
    if not encoder.transforms:
        return stored_schema(given, labels, None)
    starts = np.concatenate([[0], np.cumsum(draft.listed.partition_rows)])
    samples, error = [], None
    features = stored_schema(given, labels, None).features
    for partition, block in blocks:
        columns, bad = encoder.coded(block)
        for place in sorted(set(range(len(block.rows))) - {place for place, _ in bad}):
            key_hash = int(draft.listed.hashes[starts[partition] + block.rows[place]])
            try:
                samples.append(encoder.transform(to_sample(columns, place, features), key_hash))
            except Exception as raised:  # of some samples only, or it is raised below
                error = raised
    if not samples and error is not None:
        raise BushelError(f"transforms fail on every sample probed: {type(error).__name__}: {error}") from error
    return stored_schema(given, labels, samples)


def _sizes(draft: Draft, rows: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of all rows, from those that were encoded. In integers, so that every machine cuts the same shards."""
    mean = int(lengths.sum()) // len(lengths)
    given = draft.listed.sizes
    if given is not None:
        beside = int(np.sort(lengths - given[rows])[len(rows) // 2])
        if np.abs(given[rows] + beside - lengths).sum() < np.abs(mean - lengths).sum():
            return np.maximum(given + beside, 1)
    return np.broadcast_to(np.int64(max(mean, 1)), len(draft.listed.hashes))
