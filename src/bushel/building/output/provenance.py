"""Where a record came from: its shard, its key, and the file and row of its source."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bushel.data.categories import text_of
from bushel.data.samples import Sample
from bushel.errors import BushelError, FileProblem
from bushel.records.index import Index, load_index, load_keys
from bushel.records.manifest import Manifest, ShardEntry, read_manifest
from bushel.records.scan import scan
from bushel.storage import AnyPath, as_path

__all__ = ["Provenance", "provenance"]


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """Where one record came from."""

    split: str
    record: int  # in the split
    shard: str
    record_in_shard: int
    byte: int  # where it begins in the shard, or in its inflated bytes
    key: str
    source: str  # the file and row, or why they are unknown
    sample: Sample


def provenance(data: AnyPath, split: str, record: int) -> Provenance:
    """Trace a record of a dataset back to its source.

    >>> bushel.provenance("data", "train", 1041).source
    """
    folder = as_path(data)
    manifest = read_manifest(folder)
    shard, row = _find(manifest, folder, split, record)
    path = folder / shard.path
    index, keys = load_index(path), load_keys(path)
    if index is None or keys is None or "source/row" not in index.values:
        raise FileProblem(path, "has no index with keys, so the source of a record cannot be shown")
    partition, source_row = (int(index.values[name][row]) for name in ("source/partition", "source/row"))
    return Provenance(
        split=split,
        record=record,
        shard=shard.path,
        record_in_shard=row,
        byte=int(index.offsets[row]),
        key=text_of(keys[row]),
        source=_locate(manifest, shard, partition, source_row, *_original(index, row, keys[row])),
        sample=_sample(path, manifest, row),
    )


def _find(manifest: Manifest, folder: Path, split: str, record: int) -> tuple[ShardEntry, int]:
    facts = manifest.split(split, where=folder)
    if not 0 <= record < facts.records:
        raise ValueError(f"record must be from 0 to {facts.records - 1}, got {record}")
    for shard in facts.shards:
        if record < shard.records:
            return shard, record
        record -= shard.records
    raise AssertionError("the records of a split are those of its shards")


def _sample(path: Path, manifest: Manifest, row: int) -> Sample:
    for number, sample in enumerate(scan(path, schema=manifest.schema)):
        if number == row:
            return sample
    raise FileProblem(path, f"has fewer records than {row + 1}")


def _original(index: Index, row: int, key: bytes) -> tuple[bytes, int]:
    """The key of the sample that a record repeats, and the number of the repeat; -1 if it was made from others."""
    number = int(index.values["repeat"][row]) if "repeat" in index.values else 0
    return (key.removesuffix(b"#%d" % number) if number > 0 else key), number


def _locate(manifest: Manifest, shard: ShardEntry, partition: int, row: int, key: bytes, repeat: int) -> str:
    from bushel.sources import open_source

    if repeat < 0:
        return f"made for balance ({manifest.balance.method if manifest.balance else 'unknown'})"
    said = f" (repeat {repeat})" if repeat else ""
    table = manifest.appended[shard.generation - 1] if shard.generation else manifest.recipe.get("source", {})
    try:
        source = open_source(table)
        if source.list(partition, []).keys[row] != key:
            return f"{table.get('path', 'source')}: has changed since the build"
        return source.locate(partition, row) + said
    except (BushelError, ValueError, OSError, IndexError) as error:
        return f"unknown: {str(error).splitlines()[0]}"
