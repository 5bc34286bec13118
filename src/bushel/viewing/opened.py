"""The splits that are looked at, their records, and what each feature is taken for (its role)."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.roles import Account
from bushel.data.schema import Feature, Schema
from bushel.errors import BushelError, Fault, MissingName, fault_words
from bushel.reading.dataset import Dataset, Split
from bushel.reading.dataset import open as open_dataset
from bushel.records.files import FOOTER, HEADER, open_file
from bushel.records.index import load_keys
from bushel.records.likeness import ComparedContent, content_of
from bushel.records.manifest import Manifest, ShardEntry, has_manifest
from bushel.records.record_roles import account_of
from bushel.records.scan import name_parts, shape_value
from bushel.storage import AnyPath, as_path, status_of

__all__ = [
    "ROLES",
    "Opened",
    "OpenedSplit",
    "Record",
    "RecordPlace",
    "Role",
    "open_all",
    "open_splits",
    "parse_roles",
    "shown_as",
]

Role: TypeAlias = Literal[
    "image",
    "frames",
    "mask",
    "boxes",
    "keypoints",
    "label",
    "text",
    "tokens",
    "audio",
    "series",
    "embedding",
    "array",
    "number",
    "bytes",
]
ROLES: tuple[str, ...] = get_args(Role)
Ints: TypeAlias = NDArray[np.int64]
_SHARDS_AT_HAND = 64
_AHEAD = 256  # records that can be seen before their index is made
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_GUESSED_FROM = 3  # records
_MOST_BYTES = 256 << 20  # of a record that is shown


_SHOWN_AS: dict[str, str] = {"sound": "audio"}
_SHOWN_BY_VALUE = (
    *("category", "number", "count", "date or time", "id", "row number", "address", "constant", "key", "group"),
    *("split", "name of the label", "about an image", "empty"),
)


def shown_as(account: Account, samples: Iterable[Mapping[str, Any]] = ()) -> dict[str, str]:
    """How each feature is shown: by what it is, or by its value if that is one text or number."""
    first: dict[str, Any] = {}
    for sample in samples:
        first = {**sample, **first}
    found = {}
    for name, role in account.roles.items():
        value = first.get(name)
        is_text = isinstance(value[0] if isinstance(value, list) and value else value, str | bytes)
        by_value = "text" if is_text or role.kind in ("address", "name of the label") else "number"
        found[name] = by_value if role.kind in _SHOWN_BY_VALUE else _SHOWN_AS.get(role.kind, role.kind)
    return found


def parse_roles(text: str, known: Mapping[str, str]) -> dict[str, str]:
    """Roles with those of `name:role,…` in place of the guessed ones; what is unknown is left out."""
    asked = dict(pair.rsplit(":", 1) for pair in text.split(",") if ":" in pair)
    return {**known, **{name: role for name, role in asked.items() if name in known and role in ROLES}}


@dataclass(frozen=True)
class RecordPlace:
    """Where a record is."""

    shard: str
    record: int
    byte: int
    bytes: int
    sha256: str  # of the shard, if it is known


@dataclass(frozen=True)
class Record:
    """One record to be shown: its values, or why there are none."""

    row: int
    values: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None
    framed: bytes = b""

    @property
    def payload(self) -> bytes:
        """The bytes between header and footer."""
        return self.framed[HEADER:-FOOTER]


class OpenedSplit:
    """A split whose records are numbered from 0, of which only the shards that are looked at are opened.

    The manifest says how many records each shard has. Without one, indexes say it: they are made in the background,
    and until then the part ends where the first missing one begins.
    """

    def __init__(self, split: Split) -> None:
        self.split = split
        self.name = split.name
        self.paths = split.paths
        self.problems: list[str] = []
        self._counts = list(split.counts) if split.counts is not None else []
        self._is_whole = split.counts is not None
        self.rows = split.rows  # those that were chosen; None: all
        self._lock = threading.RLock()
        self._ahead: list[bytes] = []  # the first records of the shard whose index is being made
        self._at_hand: OrderedDict[int, Split] = OrderedDict()

    def __len__(self) -> int:
        return int(self.first[-1])

    @property
    def first(self) -> Ints:
        """The number of the first record of each shard, and the end."""
        with self._lock:
            counts = [*self._counts, len(self._ahead)] if self._ahead else self._counts
        return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)

    @property
    def is_whole(self) -> bool:
        """Whether all shards are counted."""
        return self._is_whole

    @cached_property
    def schema(self) -> Schema:
        """What the records hold; nothing if they are not Examples."""
        try:
            return self.split.schema
        except BushelError as error:
            self.problems.append(error.message)
            return Schema(features={}, record="bytes")

    @cached_property
    def size(self) -> int:
        """The size of all files."""
        if self.split.promised is not None:
            return sum(shard.bytes for shard in self.split.promised)
        return sum(status_of(path).size for path in self.paths)

    def count(self) -> None:
        """Find the records of all files that no manifest counted. Runs in the background."""
        if self._is_whole:
            return
        for number in range(len(self._counts), len(self.paths)):
            try:
                self._ahead = _first_records(self.paths[number], _AHEAD)
                records = len(self.shard(number).shards)
            except (BushelError, OSError) as error:
                self.problems.append(str(error).splitlines()[0])
                records = 0
            with self._lock:
                self._ahead = []
                self._counts.append(records)
        self._is_whole = True

    def first_values(self, count: int) -> list[dict[str, Any]]:
        """The values of some of the first records, found without an index."""
        for path in self.paths[:4]:
            if framed := _first_records(path, count):
                return [self._parsed(row, record).values for row, record in enumerate(framed)]
        return []

    def shard(self, number: int) -> Split:
        """One shard as a split of its own."""
        with self._lock:
            found = self._at_hand.pop(number, None)
            if found is None:
                stated: Sequence[ShardEntry] | None = self.split.promised
                found = Split(
                    self.name,
                    [self.paths[number]],
                    self.schema,
                    label=self.split.label,
                    promised=[stated[number]] if stated is not None else None,
                )
                found.classes = self.split.classes
            self._at_hand[number] = found
            while len(self._at_hand) > _SHARDS_AT_HAND:
                self._at_hand.popitem(last=False)
            return found

    def locate(self, row: int) -> tuple[int, int]:
        """The number of the shard of a record, and the record's number in it."""
        if not 0 <= row < len(self):
            raise MissingName("record", str(row), [], where=f"{self.name}, {len(self):,} records")
        first = self.first
        number = int(np.searchsorted(first, row, side="right")) - 1
        return number, row - int(first[number])

    def row_of(self, shard: str, record: int) -> int | None:
        """The number of a record by its file and its number there; None if the file is not of this part."""
        names = [str(path) for path in self.paths]
        if shard not in names or not record >= 0:
            return None
        number = names.index(shard)
        return int(self.first[number]) + record if number < len(self._counts) else None

    def starts_of(self, shards: Sequence[str]) -> dict[int, int]:
        """The number of the first record of those of some files that are of this part, by their places in the list."""
        own = {str(path.absolute()): number for number, path in enumerate(self.paths)}
        first = self.first
        found = {at: own.get(str(as_path(shard).absolute())) for at, shard in enumerate(shards)}
        return {at: int(first[n]) for at, n in found.items() if n is not None and n < len(first) - 1}

    def place(self, row: int) -> RecordPlace:
        """Where a record is."""
        number, record = self.locate(row)
        stated = self.split.promised[number] if self.split.promised is not None else None
        index = self.shard(number).shards.shards[0].index
        if record >= len(index):
            return RecordPlace(str(self.paths[number]), record, -1, 0, stated.sha256 if stated else index.sha256)
        return RecordPlace(
            str(self.paths[number]),
            record,
            int(index.offsets[record]),
            int(index.lengths[record]),
            stated.sha256 if stated else index.sha256,
        )

    def key_of(self, row: int) -> str:
        """The key of a record, if its build kept it."""
        number, record = self.locate(row)
        try:
            keys = load_keys(self.paths[number])
            if keys is None or record >= len(keys):
                return ""
            key = keys[record].decode("utf-8", "backslashreplace")
            repeats = self.shard(number).shards.shards[0].index.values.get("repeat")
            times = int(repeats[record]) if repeats is not None else 0
            return key.removesuffix(f"#{times}") if times > 0 else key
        except (BushelError, OSError):
            return ""

    def record(self, row: int) -> Record:
        """One record; a damaged one says what is wrong with it."""
        try:
            return self.record_of(*self.locate(row), row)
        except (BushelError, OSError) as error:
            return Record(row, problem=str(error).splitlines()[0])

    def record_of(self, number: int, record: int, row: int) -> Record:
        """One record of a shard, by its number there; `row` is the one that it goes by."""
        try:
            with self._lock:
                if self._ahead and number == len(self._counts):
                    return self._parsed(row, self._ahead[record])
            shards = self.shard(number).shards
            if record >= len(shards):
                return Record(row, problem=f"{self.paths[number].name} ends before record {record}")
            if int(shards.shards[0].index.lengths[record]) > _MOST_BYTES:
                return Record(row, problem="the record is larger than 256 MiB")
            framed = shards.framed(record)
        except (BushelError, OSError) as error:
            return Record(row, problem=str(error).splitlines()[0])
        damage = shards.shards[0].damage
        if record in damage:
            return Record(row, problem=fault_words(damage[record].fault), framed=framed)
        return self._parsed(row, framed)

    def _parsed(self, row: int, framed: bytes) -> Record:
        if len(framed) < HEADER + FOOTER:
            return Record(row, problem=fault_words(Fault.TRUNCATED_HEADER), framed=framed)
        extents = np.array([[0, len(framed) - HEADER - FOOTER]], np.uint64)
        for _, fault, _ in _native.verify(framed, extents, 1):
            if fault != Fault.MALFORMED:
                return Record(row, problem=fault_words(Fault(fault)), framed=framed)
        if self.schema.record == "bytes":
            return Record(row, framed=framed)
        message: Any = _native.parse(framed[HEADER:-FOOTER])
        if message is None:
            return Record(row, problem=fault_words(Fault.MALFORMED), framed=framed)
        return Record(row, _values(message, self.schema), framed=framed)

    def records(self, rows: Iterable[int]) -> list[Record]:
        """Several records."""
        return [self.record(row) for row in rows]

    def each_shard(self) -> Iterator[tuple[int, Split]]:
        """The shards that are counted, with the number of the first record of each."""
        first = self.first
        for number in range(len(self._counts)):
            if self._counts[number]:
                yield int(first[number]), self.shard(number)


def _first_records(path: Path, most: int) -> list[bytes]:
    """Records at the beginning of a file, with their framing."""
    for chunk in open_file(path).chunks(on_fault=lambda _: None):
        view = memoryview(chunk.memory)
        extents = chunk.extents[:most].tolist()
        return [bytes(view[at : at + HEADER + length + FOOTER]) for at, length in extents]
    return []


def _values(message: Any, schema: Schema) -> dict[str, Any]:
    """The values of a message by the schema; those that do not fit it, or are not in it, as they are."""
    features, lists = name_parts(message)
    found: dict[str, Any] = {}
    for name in schema.features:
        feature = schema.features[name]
        if feature.encoding == "sparse":
            parts = {part: features.pop(f"{name}/{part}", None) for part in ("indices", "values")}
            if any(part is not None for part in parts.values()):
                found[name] = {part: values for part, values in parts.items() if values is not None}
        elif name in lists:
            found[name] = [_fitting(step, feature, name) for step in lists.pop(name)]
        elif name in features:
            found[name] = _fitting(features.pop(name), feature, name)
    return {**found, **features, **lists}


def _fitting(values: Any, feature: Feature, name: str) -> Any:
    try:
        return shape_value(values, feature, name)
    except (BushelError, ValueError, TypeError, IndexError):
        return values


class Opened:
    """One dataset, or some TFRecord files."""

    def __init__(self, name: str, dataset: Dataset, given: Sequence[AnyPath] = ()) -> None:
        self.name = name
        self.given = [str(path) for path in given] or [dataset.where]
        self.where = self.given[0] if len(self.given) == 1 else dataset.where
        self.dataset = dataset
        self.parts = {split: OpenedSplit(found) for split, found in dataset.splits.items()}

    @property
    def manifest(self) -> Manifest | None:
        """The manifest, if there is one."""
        return self.dataset.manifest

    @property
    def is_built(self) -> bool:
        """Whether bushel built it, so that there may be a quarantine."""
        return self.manifest is not None and bool(self.manifest.recipe)

    @property
    def code(self) -> str:
        """The Python expression that opens it."""
        return f"bushel.open({(self.given[0] if len(self.given) == 1 else self.given)!r})"

    @property
    def classes(self) -> Sequence[str]:
        """Names of the label's codes."""
        return self.dataset.label.names if self.dataset.label else ()

    @property
    def label(self) -> str:
        """The feature that holds the label, or would."""
        return self.account.label or next(iter(self.parts.values())).split.label

    def class_of(self, value: Any) -> str | None:
        """The name of the class that a label says; None if it is not one whole number or text."""
        if isinstance(value, int):
            return self.classes[value] if 0 <= value < len(self.classes) else str(value)
        if isinstance(value, bytes):
            return value.decode("utf-8", "backslashreplace")
        return value if isinstance(value, str) else None

    @property
    def schema(self) -> Schema:
        """What the records of the first split hold."""
        return next(iter(self.parts.values())).schema

    @cached_property
    def account(self) -> Account:
        """What each feature is, as the first records show it."""
        part = next(iter(self.parts.values()))
        return account_of(part.paths, part.schema, self.manifest)

    @cached_property
    def content(self) -> ComparedContent:
        """Which features make two records the same."""
        splits = {name: part.paths for name, part in self.parts.items()}
        return content_of(self.account, self.schema.features, schema=self.schema, splits=splits)

    @cached_property
    def roles(self) -> dict[str, str]:
        """How each feature is shown."""
        return self.roles_of(next(iter(self.parts.values())))

    def roles_of(self, part: OpenedSplit) -> dict[str, str]:
        """How each feature of a split is shown."""
        try:
            samples = part.first_values(_GUESSED_FROM)
        except (BushelError, OSError):
            samples = []
        unknown = {name: "bytes" for sample in samples for name in sample}
        return {**unknown, **dict.fromkeys(part.schema.features, "bytes"), **shown_as(self.account, samples)}

    def part(self, name: str | None) -> OpenedSplit:
        """A split by its name; the first without a name."""
        if not name:
            return next(iter(self.parts.values()))
        if name not in self.parts:
            raise MissingName("split", name, self.parts, where=self.where)
        return self.parts[name]

    def count(self) -> None:
        """Find the records of all splits."""
        for part in self.parts.values():
            part.count()


def open_all(paths: Sequence[AnyPath]) -> list[Opened]:
    """Each finished dataset by itself, and all other files together."""
    folders = [path for path in paths if has_manifest(path)]
    others = [path for path in paths if path not in folders]
    found = [(open_dataset(folder), [folder]) for folder in folders]
    if others:
        found.append((open_dataset(others), others))
    names = _names([str(given[0]) if len(given) == 1 else dataset.where for dataset, given in found])
    return [Opened(name, dataset, given) for name, (dataset, given) in zip(names, found, strict=True)]


def open_splits(splits: Sequence[Split], where: str) -> Opened:
    """Splits that are open already."""
    return Opened(Path(where).name or where, Dataset({split.name: split for split in splits}, where=where))


def _names(folders: Sequence[str]) -> list[str]:
    """A short name for each folder; its path where two would have the same."""
    paths = [as_path(folder).absolute() for folder in folders]
    # TensorFlow Datasets has a folder per version, whose name says nothing alone.
    short = ["/".join(path.parts[-2:]) if _VERSION.fullmatch(path.name) else path.name or str(path) for path in paths]
    return [folder if short.count(name) > 1 else name for name, folder in zip(short, folders, strict=True)]
