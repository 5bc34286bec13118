"""Raw data as a dataset, without a build: the same labels, splits and records, made when they are read."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.categories import Categories, Label, Labels, count_labels, hash_values, labels_of
from bushel.data.columns import Column, concatenate
from bushel.data.encoding import FRAMING, FramedRecords, Narrowings, RecordEncoder, stored_schema
from bushel.data.splits import TRAIN, Division, divide, find, ordered_rows
from bushel.errors import BushelError, Fault, MissingName, quantity, readable_size
from bushel.reading.dataset import Dataset, Split, open_manifest
from bushel.reading.dataset import open as open_records
from bushel.reading.shards import Decoded, RowFaults, ShardSet, Wanted
from bushel.records.files import ELWC, Skipped, not_examples
from bushel.records.manifest import find_manifest
from bushel.storage import AnyPath, as_path
from bushel.transforms import BatchTransform, Transform
from bushel.transforms.chain import LayerLearner, merge_layer, needs_fit, next_layer

if TYPE_CHECKING:
    from bushel.sources.protocol import Block, Source

__all__ = ["RawSplit", "fit_to", "open", "open_raw"]

Ints: TypeAlias = NDArray[np.int64]

HELD_BYTES = 1 << 30  # records of a source that reads in sequence, all of which are held in memory
_EMPTY: Any = _native.frame(b"")
_LEARNT_ROWS = 1024


def open(data: Any, *, schema: Any = None) -> Dataset:
    """Open a dataset, TFRecord files, or anything that `bushel.build` takes, to read samples in any order.

    TFRecord files without a manifest have one split, `all`, unless the name of each says train, val or test. Their
    schema is the one given, the one next to them, or inferred from the first records. An index that is missing or stale
    is made and kept. Raw data is opened by `open_raw`.
    """
    is_path = isinstance(data, str | PathLike) and ".tfrec" not in str(data)
    if is_path and (manifest := find_manifest(data)) is not None:
        return open_manifest(as_path(data), manifest, schema)
    if _is_records(data):
        return open_records(data, schema=schema)
    if schema is not None:
        raise ValueError("schema must be left out for raw data, which has its own")
    return open_raw(data)


def _is_records(data: Any) -> bool:
    if isinstance(data, str | PathLike) and ".tfrec" in str(data):
        path = Path(data)
        return not (".tfrec" in path.name and path.is_file() and _is_elwc(path))
    from bushel.sources.opening import is_raw  # sources take long to import, and datasets do without them

    return not is_raw(data)


def _is_elwc(path: Path) -> bool:
    """Whether a file holds lists of examples with a context: they are no Examples, but a source reads them."""
    try:
        return not_examples(path) == ELWC
    except BushelError:  # reading says what is wrong with it
        return False


def open_raw(
    source: Source | AnyPath | Any,
    *,
    split: Mapping[str, float] | str | None = None,
    resplit: bool = False,
    exact: bool = False,
    stratify: str | None = None,
    group: str | None = None,
    label: str | None = None,
    seed: int = 0,
    order: Literal["shuffled", "source"] = "shuffled",
) -> Dataset:
    """Open raw data as `bushel.build` would build it, without writing anything.

    >>> train = bushel.open_raw("photos/", split="80/20")["train"]
    >>> for batch in bushel.batches(train, batch_size=64): ...

    Labels, splits, the order of records and their values are those of a build with the same arguments. What reads at
    random is read when it is needed. What reads in sequence (tables, lines) is read once and held in memory, up to 1
    GiB. Samples that a build would refuse are treated like damaged records (`on_fault`).
    """
    from bushel.sources.opening import open_any

    opened = open_any(source)
    division = Division(
        split=split,
        resplit=resplit,
        exact=exact,
        stratify=stratify,
        requested_group=group,
        seed=seed,
        own_split=opened.split,
        own_group=opened.group,
    )
    return _dataset(opened, division, label, is_shuffled=order == "shuffled")


@dataclass
class _Listed:
    """All partitions of a source, listed."""

    hashes: NDArray[np.uint64]
    columns: dict[str, Categories]
    partition_rows: list[int]
    label: Column | None
    sizes: Ints | None


def _list(source: Source, names: Sequence[str], label: str | None) -> _Listed:
    hashes, sizes, labels, rows = [], [], [], []
    columns = {name: Categories(name) for name in names}
    for partition in range(source.partitions()):
        listing = source.list(partition, list(names))
        for name, column in columns.items():
            if name not in listing.columns:
                raise MissingName("column", name, source.schema().features, where="source")
            column.add(listing.columns[name])
        hashes.append(hash_values(listing.keys))
        sizes.append(listing.sizes)
        labels.append(listing.columns[label] if label is not None else None)
        rows.append(len(listing.keys))
    if not sum(rows):
        raise BushelError("the source has no samples")
    known = [np.asarray(size, np.int64) for size in sizes if size is not None]
    all_labels = concatenate(labels) if label is not None else None  # type: ignore[arg-type]
    all_sizes = np.concatenate(known) if len(known) == len(sizes) else None
    return _Listed(np.concatenate(hashes), columns, rows, all_labels, all_sizes)


def _dataset(source: Source, division: Division, label: str | None, *, is_shuffled: bool) -> Dataset:
    features = source.schema().features
    label = label or source.label or ("label" if "label" in features else None)
    names = list(dict.fromkeys([*([label] if label else []), *division.columns]))
    listed = _list(source, names, label)
    labels = labels_of(listed.columns[label]) if label is not None else None
    encoder = RecordEncoder(stored_schema(source.schema(), labels, None), labels)
    raw = RawShards(source, encoder, listed)
    divided = divide(division, listed.hashes, listed.columns)
    rows = {
        name: ordered_rows(
            listed.hashes, np.flatnonzero(divided.split_of == number), seed=division.seed, shuffled=is_shuffled
        )
        for number, name in enumerate(divided.names)
    }
    where = _where(source)
    splits: dict[str, Split] = {
        name: RawSplit(name, as_path(where), raw, label or "label", own) for name, own in rows.items() if len(own)
    }
    train = splits.get(find(splits, TRAIN) or "")
    for one in splits.values():
        assert isinstance(one, RawSplit)
        one.train = train if isinstance(train, RawSplit) else None
    return Dataset(splits, where=where, label=_described(labels, raw, train))


def _described(labels: Labels | None, raw: RawShards, train: Split | None) -> Label | None:
    if labels is None:
        return None
    codes = raw.values("label") if labels.task == "classification" else None
    known = codes[train.rows] if codes is not None and train is not None else np.empty(0, np.int64)
    return labels.described(count_labels(labels, known[known >= 0]) if len(known) else {})


def _where(source: Source) -> str:
    """The path of a source, or what it is."""
    source_facts = source.describe()
    path = source_facts.get("path", source_facts.get("kind", "raw data"))
    return str(path[0] if isinstance(path, list) and path else path)


class RawSplit(Split):
    """A split of raw data: samples by number, made into records when they are read."""

    is_raw = True

    def __init__(self, name: str, where: Path, raw: RawShards, label: str, rows: Ints) -> None:
        super().__init__(name, [where], raw.encoder.schema, label=label, rows=rows)
        self.raw = raw
        self.train: RawSplit | None = None  # what transforms learn from

    @property
    def shards(self) -> ShardSet:
        """The samples, as if they were records."""
        return self.raw

    @property
    def summary(self) -> str:
        """Its name and size."""
        return f"{self.name}: {quantity(len(self), 'sample')} of {self.paths[0]}"


class RawShards(ShardSet):
    """The samples of a source as records, numbered through its partitions."""

    def __init__(self, source: Source, encoder: RecordEncoder, listed: _Listed) -> None:
        super().__init__((), None)
        self.source = source
        self.encoder = encoder
        self.first = np.concatenate([[0], np.cumsum(listed.partition_rows, dtype=np.int64)])
        self._labels = _codes(encoder.labels, listed.label)
        self._sizes = listed.sizes
        self._refused: dict[int, str] = {}  # why a sample cannot be used, by its number
        self._held: _Held | None = None
        self._holding = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        dropped = ("_held", "_holding", "_looking")
        return {name: value for name, value in self.__dict__.items() if name not in dropped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _held=None, _holding=threading.Lock(), _looking=threading.Lock())

    def begin(self, *, shuffled_among: int | None, is_once: bool = False) -> None:  # noqa: ARG002
        """Read what can only be read in sequence."""
        if self.source.reads == "sequence":
            self._hold()

    def decode(self, rows: Ints, wanted: Wanted) -> Decoded:
        """Read the samples, encode them as a build does, and decode the features."""
        begin = perf_counter()
        numbers, places = np.unique(rows, return_inverse=True)
        held = self._hold() if self.source.reads == "sequence" else self._read(numbers)
        seconds = perf_counter() - begin
        extents = held.extents(numbers)[places]
        columns, found, _ = _native.decode(held.memory, extents, wanted)
        known = {row for row, _, _ in found}
        bad = [(at, int(Fault.MALFORMED), -1) for at, row in enumerate(rows.tolist()) if row in self._refused]
        faults: RowFaults = sorted([*found, *(fault for fault in bad if fault[0] not in known)])
        return Decoded(columns, faults, seconds)

    def _read(self, numbers: Ints) -> _Held:
        """Records of samples that can be read at random; those known to be refused are not read again."""
        held = _Held()
        usable = numbers[[row not in self._refused for row in numbers.tolist()]] if self._refused else numbers
        owners = np.searchsorted(self.first, usable, side="right") - 1
        for partition in np.unique(owners).tolist():
            wanted = usable[owners == partition] - self.first[partition]
            for block in self.source.read(partition, wanted):
                self._encode(partition, block, held)
        return held.done()

    def _hold(self) -> _Held:
        """The records of a source that reads in sequence."""
        with self._holding:
            if self._held is None:
                held = _Held()
                for partition in range(self.source.partitions()):
                    for block in self.source.read(partition, None):
                        self._encode(partition, block, held)
                        if held.size > HELD_BYTES:
                            raise self._too_large()
                self._held = held.done()
            return self._held

    def _too_large(self) -> BushelError:
        where = _where(self.source)
        held = readable_size(HELD_BYTES)
        return BushelError(
            f"{where}: is read in sequence, and its records take more than the {held} that are held in memory",
            help=[f"Build it first: bushel build {where} OUT"],
        )

    def _encode(self, partition: int, block: Block, held: _Held) -> None:
        base = int(self.first[partition])
        self._refused.update({base + bad.row: f"{bad.stage}: {bad.reason}" for bad in block.refused})
        if not len(block.rows):
            return
        rows = np.asarray(block.rows, np.int64)
        columns, bad_labels = self.encoder.coded(block.columns)
        left_out = {place for place, _ in bad_labels}
        records, broken = self.encoder.encode(columns, rows, left_out, Narrowings())
        for place, why in [*broken, *bad_labels]:
            self._refused[base + int(rows[place])] = f"schema: {why}"
        if records is not None:
            held.add(base, records)

    def values(self, name: str) -> NDArray[Any] | None:
        """The labels, which were listed; None for other columns."""
        return self._labels if name == "label" else None

    def record_bytes(self) -> float:
        """About how large a sample is, if the source lists sizes."""
        return float(self._sizes[:64].mean()) if self._sizes is not None and len(self._sizes) else float("inf")

    def place(self, row: int) -> str:
        """Where a sample comes from."""
        partition = int(np.searchsorted(self.first, row, side="right")) - 1
        return self.source.locate(partition, row - int(self.first[partition]))

    def why(self, row: int) -> str | None:
        """Why a sample cannot be used."""
        return self._refused.get(row)

    def skipped(self, row: int, fault: int) -> Skipped:
        """A sample at fault, with its place."""
        return Skipped(self.place(row), row, -1, 0, Fault(fault))

    def error(self, row: int, fault: int, feature: str | None) -> BushelError:
        """The error for a sample at fault."""
        help = ['A build refuses such a sample; on_fault="skip" leaves it out.']
        return BushelError(f"{self.place(row)}: {self.why(row) or f'{feature}: fault {fault}'}", help=help)


def _codes(labels: Labels | None, column: Column | None) -> NDArray[Any] | None:
    """The label of each sample, as an index has it; None if some have none, several, or floats."""
    if labels is None or column is None or labels.task != "classification":
        return None
    coded = labels.encode(column)
    return coded if isinstance(coded, np.ndarray) and coded.ndim == 1 else None


class _Held:
    """Records in memory, by the number of their sample."""

    def __init__(self) -> None:
        self.memory: Any = b""
        self.size = len(_EMPTY)
        self._pieces: list[Any] = [_EMPTY]  # stands for samples that are refused
        self._numbers: list[Ints] = []
        self._offsets: list[Ints] = []
        self._lengths: list[Ints] = []

    def add(self, base: int, records: FramedRecords) -> None:
        """Add the records of some rows."""
        ends = np.cumsum(records.lengths)
        self._pieces.append(records.data)
        self._numbers.append(base + records.rows)
        self._offsets.append(self.size + ends - records.lengths)
        self._lengths.append(records.lengths - FRAMING)
        self.size += int(ends[-1])

    def done(self) -> _Held:
        """Make it ready to be read."""
        self.memory = b"".join(self._pieces)
        self._pieces = []
        numbers = np.concatenate([*self._numbers, np.empty(0, np.int64)])
        order = np.argsort(numbers, kind="stable")
        self.numbers: Ints = numbers[order]
        places = np.stack(
            [np.concatenate([*part, np.empty(0, np.int64)]) for part in (self._offsets, self._lengths)], 1
        )
        self.places = places[order].astype(np.uint64)
        return self

    def extents(self, numbers: Ints) -> NDArray[np.uint64]:
        """Where the records of samples are; refused ones are empty records."""
        found = np.zeros((len(numbers), 2), np.uint64)
        if len(self.numbers):
            at = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
            there = self.numbers[at] == numbers
            found[there] = self.places[at[there]]
        return found


def fit_to(
    split: Split, transforms: Sequence[Transform | BatchTransform], seed: int = 0
) -> tuple[Transform | BatchTransform, ...]:
    """The transforms, fitted to the train split of raw data; a build fits those of a dataset."""
    found: list[Any] = list(transforms)
    if not isinstance(split, RawSplit):
        return tuple(found)
    while any(map(needs_fit, found)):
        train = split.train
        if train is None:
            raise BushelError(f"transforms are fitted on the split {TRAIN!r}, and there is none")
        learner = LayerLearner(found, next_layer(found), seed)
        rows = train.rows if train.rows is not None else np.arange(len(train))
        for at in range(0, len(rows), _LEARNT_ROWS):
            usable = train.usable(rows[at : at + _LEARNT_ROWS])
            if len(usable):
                learner.add(train.read(usable), train.schema.features, usable)
        found = merge_layer(found, learner.layer, iter([learner.fits]))
    return tuple(found)
