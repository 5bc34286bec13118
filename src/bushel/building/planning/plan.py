"""The plan of a build: split, order, shard and place of every sample, decided before payload is read.

It is arrays in files that workers map; no sample has a Python object.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.categories import Labels
from bushel.data.columns import BytesColumn, roomy
from bushel.data.roles import Account
from bushel.data.schema import Schema
from bushel.records.manifest import Balanced
from bushel.storage import find_array, map_array, write_array, write_whole
from bushel.storage.file_kinds import SHARD_CODECS

__all__ = ["Plan", "PlanFacts", "ShardPlan", "cut_into_shards", "load_plan"]

MIN_SAMPLES = 8  # expected in a shard
REPEATS_NAME = "repeats.npy"  # partition, row and number of each repeated sample, sorted by partition
Rows = NDArray[np.int64]
_NUMBERS = ".numbers.json"
_MOST_DIGITS = 18  # of a number that fits int64 for sure
_BLOCK = 4096  # disk block: what the end of a file takes
_INDEX_BYTES, _RUN_BYTES = 44, 24  # bytes per record: offset, length, key, label, source; place, length, label


class ShardPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One shard: the samples [first, end) of the planned order."""

    split: str
    number: int
    of: int
    first: int
    end: int
    bytes: int  # estimated
    generation: int = 0

    @property
    def samples(self) -> int:
        """How many are planned."""
        return self.end - self.first

    def file_name(self, compression: str | None) -> str:
        """What the shard is called in the dataset."""
        generation = f"g{self.generation:03d}-" if self.generation else ""
        suffix = SHARD_CODECS[compression].suffixes[0] if compression else ""
        return f"{self.split}-{generation}{self.number:05d}-of-{self.of:05d}.tfrecord{suffix}"


class PlanFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan holds besides its arrays."""

    partition_rows: list[int]
    planned: list[int]  # samples of each partition that are used
    shards: list[ShardPlan]
    sample_bytes: float  # of one record, estimated
    sample_seconds: float  # to read and encode one sample
    schema: Schema  # of records
    labels: Labels | None = None
    label_counts: dict[str, dict[str, int]] = {}  # by split and class
    problems: list[str] = []
    counted: dict[str, int] = {}  # what the source left out
    bounds: dict[str, list[int]] = {}  # bounds of stratified splits, by class
    originals: list[int] = []  # rows of each partition that come from the source, if balance added some
    balance: Balanced | None = None
    compressed: float = 1.0  # compressed bytes per byte of records, if shards are compressed
    part_rows: int | None = None  # samples of a part from which shards are merged; 0: there are none; None: undecided
    is_fitted: bool = True  # transforms are fitted, and shards are cut by the resulting sizes
    account: Account | None = None  # what the features of the source were taken for


class Plan:
    """A plan in its folder."""

    def __init__(self, folder: Path, facts: PlanFacts) -> None:
        self.folder = folder
        self.facts = facts
        self.starts = np.concatenate([[0], np.cumsum(facts.partition_rows, dtype=np.int64)])

    @cached_property
    def order(self) -> Rows:
        """The row of each planned sample, in planned order; rows are numbered through all partitions."""
        return find_array(self.folder / "order.npy")  # type: ignore[no-any-return]

    @cached_property
    def place(self) -> Rows:
        """The place of each row in the planned order, or -1 if it is left out."""
        return find_array(self.folder / "place.npy")  # type: ignore[no-any-return]

    @cached_property
    def hashes(self) -> NDArray[np.uint64]:
        """XXH64 of each row's key."""
        return find_array(self.folder / "hashes.npy")  # type: ignore[no-any-return]

    @cached_property
    def sizes(self) -> Rows | None:
        """Bytes of each row, as the source lists them; None if it does not."""
        path = self.folder / "sizes.npy"
        return find_array(path) if path.exists() else None

    def origins(self, partitions: Rows, rows: Rows) -> tuple[Rows, NDArray[np.int32] | None]:
        """The source rows that planned rows come from, and the number of each repeat; None without repeats."""
        if not self.facts.originals:
            return rows, None
        listed = np.array([*self.facts.originals, 0])[np.minimum(partitions, len(self.facts.originals))]
        origins, numbers = rows.copy(), np.zeros(len(rows), np.int32)
        path = self.folder / REPEATS_NAME
        repeats = map_array(path) if path.exists() else np.empty((0, 3), np.int64)
        begins = np.searchsorted(repeats[:, 0], partitions)
        again = (rows >= listed) & (partitions < len(self.facts.originals))
        at = begins[again] + rows[again] - listed[again]
        origins[again], numbers[again] = repeats[at, 1], repeats[at, 2]
        numbers[partitions >= len(self.facts.originals)] = -1  # made from others
        return origins, numbers

    def keys(self, partition: int) -> BytesColumn:
        """The keys of one partition."""
        return load_keys(self.folder, partition)

    def keys_of(self, partition: int, rows: Rows) -> BytesColumn:
        """The keys of some rows of one partition."""
        return load_keys_of(self.folder, partition, rows)

    @property
    def samples(self) -> int:
        """How many are planned."""
        return self.facts.shards[-1].end if self.facts.shards else 0

    @property
    def bytes(self) -> int:
        """About how large all shards will be."""
        return sum(shard.bytes for shard in self.facts.shards)

    @property
    def disk_bytes(self) -> int:
        """About how much disk space shards take, with their indexes, keys and journal entries."""
        keys = sum(path.stat().st_size for path in self.folder.glob("keys-*.npy"))
        for path in self.folder.glob(f"keys-*{_NUMBERS}"):
            numbered = msgspec.json.decode(path.read_bytes(), type=_Numbered)
            keys += numbered.count * (8 + len(numbered.prefix) + len(str(numbered.first + numbered.count)))
        files = 4 * _BLOCK * len(self.facts.shards)
        return int(self.bytes * self.facts.compressed) + keys + _INDEX_BYTES * self.samples + files

    def run_bytes(self, runs: int) -> int:
        """About how much disk space this many runs take."""
        edges = 16 * (len(self.facts.shards) + 1)
        return self.bytes + _RUN_BYTES * self.samples + runs * (6 * _BLOCK + edges)

    def partition_of(self, rows: Rows) -> Rows:
        """Which partition each row is in."""
        return np.searchsorted(self.starts, rows, side="right") - 1

    @cached_property
    def _firsts(self) -> Rows:
        return np.array([shard.first for shard in self.facts.shards], np.int64)

    def split_of(self, place: int) -> str:
        """The split of a planned place."""
        return self.facts.shards[int(np.searchsorted(self._firsts, place, side="right")) - 1].split


def keys_stem(folder: Path, partition: int) -> Path:
    """The path of the keys of a partition, without the suffixes of the two files."""
    return folder / f"keys-{partition:06d}"


class _Numbered(msgspec.Struct, frozen=True, array_like=True):
    """Keys that are numbers in a row after a prefix: most sources without keys number their rows."""

    prefix: str
    first: int
    count: int

    def keys_of(self, rows: Rows) -> BytesColumn:
        return BytesColumn(*_native.digits_of(rows + self.first, self.prefix.encode()))

    @property
    def all_keys(self) -> BytesColumn:
        return BytesColumn(*_native.number_keys(self.first, self.count, self.prefix.encode()))


def load_keys(folder: Path, partition: int) -> BytesColumn:
    """The keys of one partition, mapped unless they are numbers."""
    keys = _saved_keys(folder, partition)
    return keys.all_keys if isinstance(keys, _Numbered) else keys


def load_keys_of(folder: Path, partition: int, rows: Rows) -> BytesColumn:
    """The keys of some rows of one partition."""
    keys = _saved_keys(folder, partition)
    if isinstance(keys, _Numbered):
        return keys.keys_of(rows)
    return BytesColumn(*_native.gather_rows([(keys.offsets, keys.data)], np.zeros_like(rows), rows))


def _saved_keys(folder: Path, partition: int) -> BytesColumn | _Numbered:
    stem = keys_stem(folder, partition)
    try:
        return msgspec.json.decode(stem.with_suffix(_NUMBERS).read_bytes(), type=_Numbered)
    except FileNotFoundError:
        return BytesColumn(map_array(stem.with_suffix(".offsets.npy")), map_array(stem.with_suffix(".data.npy")))


def save_keys(folder: Path, partition: int, keys: BytesColumn) -> None:
    """Write the keys of one partition."""
    stem = keys_stem(folder, partition)
    if (numbered := _as_numbered(keys)) is not None:
        with write_whole(stem.with_suffix(_NUMBERS), sync=False) as file:
            file.write(msgspec.json.encode(numbered))
        return
    save_array(stem.with_suffix(".offsets.npy"), np.asarray(keys.offsets, np.int64))
    save_array(stem.with_suffix(".data.npy"), np.asarray(keys.data[: keys.offsets[-1]], np.uint8))
    stem.with_suffix(_NUMBERS).unlink(missing_ok=True)  # of the rows before some were repeated


def _as_numbered(keys: BytesColumn) -> _Numbered | None:
    """The keys as numbers, if that is all that they are."""
    first = keys[0] if len(keys) else b""
    digits = first[len(first.rstrip(b"0123456789")) :]
    number = digits.lstrip(b"0") or digits[-1:]
    if not 0 < len(number) <= _MOST_DIGITS:
        return None
    try:
        made = _Numbered(first[: -len(number)].decode(), int(number), len(keys))
    except UnicodeDecodeError:
        return None
    if keys[len(keys) - 1] != made.keys_of(np.array([len(keys) - 1]))[0]:  # most others differ here
        return None
    same = made.all_keys
    is_same = np.array_equal(same.offsets, keys.offsets) and np.array_equal(same.data, keys.data[: keys.offsets[-1]])
    return made if is_same else None


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array that `map_array` maps."""
    with write_whole(path, sync=False) as file:
        write_array(file, array)


def load_plan(folder: Path) -> Plan | None:
    """The plan in a folder, if it was finished."""
    try:
        return Plan(folder, msgspec.json.decode((folder / "plan.json").read_bytes(), type=PlanFacts))
    except FileNotFoundError:
        return None


def save_plan(plan: Plan) -> None:
    """Write the file that marks the plan as finished; its arrays are written already."""
    with write_whole(plan.folder / "plan.json") as file:
        file.write(msgspec.json.encode(plan.facts))


def shard_counts(sizes: dict[str, tuple[int, int]], *, shard_size: int, shards: int | None) -> dict[str, int]:
    """How many shards each split has; `sizes` are its samples and bytes. No shard expects fewer than eight samples."""
    largest = max((size for _, size in sizes.values()), default=0)
    counts = {}
    for name, (samples, size) in sizes.items():
        wanted = round(size / shard_size) if shards is None else round(shards * size / max(largest, 1))
        counts[name] = max(1, min(wanted, samples // MIN_SAMPLES))
    return counts


def cut_all(
    splits: dict[str, Rows], *, shard_size: int, shards: int | None, generation: int = 0
) -> tuple[list[ShardPlan], float]:
    """The shards of all splits, and the mean size of a sample; `splits` are the sizes of their samples in order."""
    totals = {name: (len(sizes), int(sizes.sum())) for name, sizes in splits.items()}
    counts = shard_counts(totals, shard_size=shard_size, shards=shards)
    found: list[ShardPlan] = []
    first = 0
    for name, sizes in splits.items():
        found += cut_into_shards(name, sizes, counts[name], first=first, generation=generation)
        first += len(sizes)
    return found, sum(size for _, size in totals.values()) / max(first, 1)


def recut(plan: Plan, sizes: Rows, schema: Schema, *, shard_size: int, shards: int | None) -> Plan:
    """The plan with its shards cut again, by the sizes and schema after fitted transforms; it is saved."""
    before = plan.facts.shards
    splits = {}
    for name in dict.fromkeys(shard.split for shard in before):
        own = [shard for shard in before if shard.split == name]
        splits[name] = sizes[plan.order[own[0].first : own[-1].end]]
    cut, sample_bytes = cut_all(splits, shard_size=shard_size, shards=shards, generation=before[0].generation)
    facts = msgspec.structs.replace(plan.facts, shards=cut, sample_bytes=sample_bytes, schema=schema, is_fitted=True)
    made = Plan(plan.folder, facts)
    save_plan(made)
    return made


def cut_into_shards(split: str, sizes: Rows, count: int, *, first: int, generation: int = 0) -> list[ShardPlan]:
    """Shards of about equal bytes; `sizes` are those of the split's samples in planned order."""
    ends = np.cumsum(sizes, out=roomy(len(sizes), np.int64))
    total = int(ends[-1])
    cuts = [int(np.searchsorted(ends, total * i // count, side="right")) for i in range(1, count)]
    edges = [0, *cuts, len(sizes)]
    shards = []
    for number in range(count):
        begin, end = edges[number : number + 2]
        size = int(ends[end - 1] - (ends[begin - 1] if begin else 0)) if end > begin else 0
        shards.append(
            ShardPlan(
                split=split,
                number=number,
                of=count,
                first=first + begin,
                end=first + end,
                bytes=size,
                generation=generation,
            )
        )
    return shards
