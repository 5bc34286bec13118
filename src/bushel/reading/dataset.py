"""A dataset open for reading: its splits, and their records at random."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice, repeat
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, overload

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.categories import Label
from bushel.data.columns import (
    AnyColumn,
    BytesColumn,
    Column,
    Ragged,
    SparseColumn,
    as_ragged,
    concatenate,
    cut,
    join_sparse,
    need_arrow,
    splits_of,
    with_missing,
)
from bushel.data.samples import Sample, column_of, feature_of, sample_at
from bushel.data.schema import BYTES_KIND, INT_KIND, Feature, Schema, read_sidecar, wire_features
from bushel.data.splits import choose, find, group_files
from bushel.errors import (
    BushelError,
    Fault,
    FileProblem,
    MissingName,
    SchemaMismatch,
    fault_words,
    quantity,
    understood,
)
from bushel.printing import html_table
from bushel.reading.arrow_streams import RecordStream, join_streams
from bushel.reading.expressions import Expression, one_of, parse
from bushel.reading.shards import (
    Decoded,
    FetchedShards,
    GroupedShards,
    InflatedShards,
    MappedShards,
    OpenShard,
    ShardSet,
    Wanted,
    load_indexes,
)
from bushel.records.files import leave_out_empty, refuse_others
from bushel.records.index import row_lengths
from bushel.records.manifest import MANIFEST_NAME, Manifest, ShardEntry, find_manifest
from bushel.records.scan import shape_column, to_column
from bushel.records.survey import has_records, probe_schema
from bushel.storage import AnyPath, as_path, list_files, shard_paths
from bushel.storage.cache import is_fetched
from bushel.storage.file_kinds import compression_named
from bushel.transforms import Transform
from bushel.transforms.by_name import make_from_data
from bushel.transforms.chain import restore_all

__all__ = ["Dataset", "Join", "Share", "Split", "mix", "open", "open_manifest"]

Ints: TypeAlias = NDArray[np.int64]
Change: TypeAlias = tuple[str, Callable[[Any], Any], Feature]

_AT_A_TIME = 8192  # records at a time when a whole column is read


def open(paths: AnyPath | Iterable[AnyPath], *, schema: Schema | None = None) -> Dataset:
    """Open a dataset, or any TFRecord files, to read their records in any order.

    Files without a manifest have one split, `all`, unless the name of each says train, val or test. Their schema is
    the one given, the one next to them, or inferred from the first records. An index that is missing or stale is made
    and kept.
    """
    given = [paths] if isinstance(paths, str | PathLike) else list(paths)
    if len(given) == 1 and (manifest := find_manifest(given[0])) is not None:
        return open_manifest(as_path(given[0]), manifest, schema)
    files = list_files(given)
    schema = schema or read_sidecar(files[0])
    groups = group_files(files)
    splits = {name: Split(name, leave_out_empty(group), schema) for name, group in groups.items()}
    return Dataset(splits, where=str(files[0].parent))


def open_manifest(folder: Path, manifest: Manifest, schema: Schema | None = None) -> Dataset:
    """Open the dataset that a manifest in this folder describes."""
    label = manifest.label.feature if manifest.label else "label"
    paths = iter(shard_paths(folder, (shard.path for split in manifest.splits.values() for shard in split.shards)))
    splits = {
        name: Split(
            name,
            list(islice(paths, len(split.shards))),
            schema or manifest.schema,
            label=label,
            promised=split.shards,
        )
        for name, split in manifest.splits.items()
    }
    return Dataset(splits, where=str(folder), manifest=manifest)


class Dataset(Mapping[str, "Split"]):
    """The splits of a dataset, by name."""

    __eq__ = object.__eq__  # two that are open are not one, whatever they hold
    __hash__ = object.__hash__

    def __init__(
        self, splits: dict[str, Split], *, where: str, manifest: Manifest | None = None, label: Label | None = None
    ) -> None:
        self.splits = splits
        self.where = where
        self.manifest = manifest
        self.label = label or (manifest.label if manifest else None)
        for split in splits.values():
            split.classes = self.classes

    def __getitem__(self, name: str) -> Split:
        found = find(self.splits, name)
        if found is None:
            raise MissingName("split", name, self.splits, where=self.where)
        return self.splits[found]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and find(self.splits, name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.splits)

    def __len__(self) -> int:
        return len(self.splits)

    def __repr__(self) -> str:
        return f"Dataset({self.where!r}, {', '.join(split.summary for split in self.splits.values())})"

    def _repr_html_(self) -> str:
        rows = [(split.name, split.summary.partition(": ")[2]) for split in self.splits.values()]
        features = [(name, feature.describe()) for name, feature in self.schema.features.items()]
        return html_table(("split", "holds"), rows, title=self.where) + html_table(("feature", "type"), features)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """What Arrow's libraries ask for: the records of all splits, with a column `split`."""
        need_arrow("a stream of Arrow")
        return join_streams({name: self[name].stream() for name in self}).__arrow_c_stream__(requested_schema)

    def choose(self, name: str | None = None, *preferred: str) -> Split:
        """The split with this name; without a name, a preferred one, or the only one."""
        return self[choose(self.splits, *preferred) if name is None else name]

    @property
    def schema(self) -> Schema:
        """What the records of the first split hold."""
        return next(iter(self.splits.values())).schema

    @property
    def classes(self) -> Sequence[str]:
        """The names of the label's codes; empty if they have none."""
        return self.label.names if self.label else ()

    def class_weights(self) -> dict[int, float]:
        """The weight of each class in a loss, by its label: records of train / (classes * records of the class).

        >>> model.fit(x, y, class_weight=data.class_weights())
        """
        label = self.label
        if label is None or not label.class_weights:
            raise BushelError(f"{self.where}: there are no classes to weigh")
        codes = {name: code for code, name in enumerate(label.names)}
        return {codes[name] if codes else int(name): weight for name, weight in label.class_weights.items()}

    def transforms(self) -> list[Transform]:
        """The transforms that the dataset was built with, and what they learned. They take raw samples.

        >>> sample = bushel.transforms.apply_all(data.transforms(), {"age": 41.0, "text": "as it came"})
        """
        if self.manifest is None:
            return []
        with understood(as_path(self.where) / MANIFEST_NAME, "its transforms cannot be made"):
            made = make_from_data(self.manifest.recipe.get("transforms", ()), as_path(self.where))
            return restore_all(made, self.manifest, self.where)


def open_shards(paths: Sequence[Path], promised: Sequence[ShardEntry] | None = None) -> ShardSet:
    """Find the records of files, by their indexes if those are fresh. `promised` is what a manifest says."""
    fetched = is_fetched(paths)
    # Indexes on disk are free, and say what is damaged.
    counts = [shard.records for shard in promised] if fetched and promised is not None else None
    shards = [OpenShard(path, promise, fetched) for path, promise in zip(paths, promised or repeat(None), strict=False)]
    if fetched and counts is None:
        load_indexes(shards)
    if fetched:
        named = [compression_named(path.name) for path in paths[:1]]  # all shards of a dataset are alike, and say so
        are_compressed = any(named if counts is not None else (shard.index.compression for shard in shards))
        return InflatedShards(shards, counts) if are_compressed else FetchedShards(shards, counts)
    compressed = [shard.index for shard in shards if shard.index.compression is not None]
    if not compressed:
        return MappedShards(shards)
    in_groups = all(index.starts is not None for index in compressed)
    return GroupedShards(shards) if in_groups else InflatedShards(shards)


class Share:
    """One of the splits that a mixture draws from: its first record, how many it has, and its weight."""

    def __init__(self, first: int, records: int, weight: float) -> None:
        self.first = first
        self.records = records
        self.weight = weight


@dataclass(frozen=True)
class Join:
    """Features of another split, for each record of the shards."""

    split: Split  # it has no other features
    rows: Ints  # the record there, by its number in the shards; -1: none
    is_optional: bool  # whether a record may have none

    def read(self, rows: Ints, names: Sequence[str]) -> dict[str, Any]:
        """These features of records; a record there that cannot be read is a mismatch of the record here."""
        found = self.rows[rows]
        present = found >= 0
        there, other = found[present], self.split
        wanted = other.wanted(names)
        decoded = other.decode(there, wanted)
        for row, fault, column in decoded.faults:
            at = int(there[row])
            why = other.shards.why(at) or fault_words(Fault(fault))
            name = wanted[max(column, 0)][0]
            what = f"cannot be joined, {other.shards.place(at)}: {why}"
            raise SchemaMismatch(what, at=f"record {np.flatnonzero(present)[row]}/{name}")
        columns = other.shape(decoded, wanted, there)
        return {name: _spread(column, present) for name, column in columns.items()} if self.is_optional else columns

    def lengths(self, name: str) -> Ints:
        """How many values of a feature each record has."""
        counted = np.append(self.split.lengths(name), 0)  # the last is for those that have none
        return np.asarray(counted[self.rows], np.int64)


def _spread(column: Any, present: NDArray[np.bool_]) -> Any:
    """A column of some rows as one of all; the others lack it, and sparse ones have zeros."""
    if not isinstance(column, SparseColumn):
        return with_missing(column, present)
    lengths = np.zeros(len(present), np.int64)
    lengths[present] = np.diff(column.row_splits)
    return SparseColumn(column.places, column.values, splits_of(lengths), column.size)


class Split:
    """A named part of a dataset: records by number, in any order.

    >>> train = bushel.open("data")["train"]
    >>> train[7]["label"], train[[5, 900, 3]]["label"], len(train.where("label", 3))
    """

    is_raw = False  # its records are in files

    def __init__(
        self,
        name: str,
        paths: Sequence[Path],
        schema: Schema | None = None,
        *,
        label: str = "label",
        promised: Sequence[ShardEntry] | None = None,
        rows: Ints | None = None,
        parts: Sequence[Share] = (),
    ) -> None:
        self.name = name
        self.paths = tuple(paths)
        self.label = label
        self.promised = promised  # what the manifest says about each shard, if there is one
        self.rows = rows  # the records chosen, by their number in the shards; None: all
        self.parts = tuple(parts)  # of a mixture
        self.classes: Sequence[str] = ()  # names of the label's codes
        self.changes: tuple[Change, ...] = ()  # by `map`
        self.joins: tuple[Join, ...] = ()  # by `join`
        self._schema = schema
        self._stored: Schema | None = None

    @cached_property
    def shards(self) -> ShardSet:
        """The files and where their records are."""
        return open_shards(self.paths, self.promised)

    @property
    def counts(self) -> list[int] | None:
        """Records of each shard, if the manifest says."""
        return None if self.promised is None else [shard.records for shard in self.promised]

    @cached_property
    def schema(self) -> Schema:
        """What the records hold."""
        if self._schema is None:
            refuse_others(self.paths[0])
        if self._schema is not None:
            return self._schema
        schemas = (probe_schema(path) for path in self.paths)  # the first file may be damaged throughout
        found = next((schema for schema in schemas if schema.features), Schema(features={}))
        if not found.features and has_records(self.paths):
            help = [f"To print the bytes of the records: bushel cat {self.paths[0]}"]
            raise FileProblem(self.paths[0], "no feature was found in its records", help=help)
        return found

    @property
    def stored(self) -> Schema:
        """What the records hold before `map` changes them."""
        return self._stored or self.schema

    @property
    def _all_rows(self) -> Ints:
        return np.arange(len(self.shards), dtype=np.int64) if self.rows is None else self.rows

    @property
    def is_sequential(self) -> bool:
        """Whether shards are compressed, so that records cannot be read at random."""
        return self.shards.is_sequential

    def __len__(self) -> int:
        if self.rows is not None:
            return len(self.rows)
        if self.promised is not None and "shards" not in self.__dict__:
            is_foreign = not any(shard.sha256 for shard in self.promised)
            if is_foreign or is_fetched(self.paths):
                return sum(shard.records for shard in self.promised)  # no index need be made or fetched for that
        return len(self.shards)

    @property
    def summary(self) -> str:
        """Its name and size. Records are only counted if that does not need the files."""
        shards = quantity(len(self.paths), "shard")
        known = self.rows if self.rows is not None else self.counts
        if known is None:
            return f"{self.name}: {shards}"
        records = len(known) if self.rows is not None else sum(self.counts or ())
        return f"{self.name}: {quantity(records, 'record')} in {shards}"

    def __repr__(self) -> str:
        return f"Split({self.summary})"

    def _repr_html_(self) -> str:
        features = [(name, feature.describe()) for name, feature in self.schema.features.items()]
        return html_table(("feature", "type"), features, title=self.summary)

    @overload
    def __getitem__(self, key: int | np.integer[Any]) -> Sample: ...
    @overload
    def __getitem__(self, key: slice | Sequence[int] | NDArray[Any]) -> dict[str, AnyColumn]: ...
    def __getitem__(self, key: Any) -> Any:
        """One sample by number; columns of several by a slice, a list or an array of numbers or booleans."""
        if isinstance(key, int | np.integer):
            rows = self._rows_at(np.array([key], np.int64))
            return sample_at(self.read(rows), self.schema.features, 0)
        if isinstance(key, slice):
            return self.read(self._rows_at(np.arange(*key.indices(len(self)), dtype=np.int64)))
        numbers = np.asarray(key)
        if numbers.dtype == bool:
            if len(numbers) != len(self):
                raise IndexError(f"a mask must have {len(self)} values, got {len(numbers)}")
            numbers = np.flatnonzero(numbers)
        if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
            raise TypeError(f"records are chosen by numbers, a slice or a mask; got {key!r}")
        return self.read(self._rows_at(numbers.astype(np.int64)))

    def _rows_at(self, numbers: Ints) -> Ints:
        count = len(self)
        outside = (numbers < -count) | (numbers >= count)
        if outside.any():
            raise IndexError(f"record must be below {count}, got {int(numbers[outside][0])}")
        numbers = np.where(numbers < 0, numbers + count, numbers)
        return numbers if self.rows is None else self.rows[numbers]

    def wanted(self, columns: Sequence[str] | None = None) -> Wanted:
        """What to request from the core."""
        if isinstance(columns, str):
            raise ValueError(f"columns must be a list of names, got the string {columns!r}")
        for name in columns or ():
            if name not in self.schema:
                raise MissingName("feature", name, self.schema, where=self.paths[0])
        names = self.schema if columns is None else columns
        own = [name for name in names if self._join_of(name) is None]
        others = [name for name in names if name not in own] if self.joins else []  # last, as `decode` has only its own
        features = wire_features({name: self.stored[name] for name in [*own, *others]})
        return [(name, feature.sequence, feature.kind) for name, feature in features.items()]

    def _join_of(self, name: str) -> Join | None:
        """The join that a feature, or a list of a sparse one, comes from."""
        return next((join for join in self.joins if name in wire_features(join.split.schema.features)), None)

    def decode(self, rows: Ints, wanted: Wanted) -> Decoded:
        """Decode features of records by their number in the shards; those that were joined are read by `shape`."""
        own = [one for one in wanted if self._join_of(one[0]) is None] if self.joins else wanted
        return self.shards.decode(rows, own)

    def read(self, rows: Ints, columns: Sequence[str] | None = None) -> dict[str, Column]:
        """Columns of records by their number in the shards; a damaged record is an error."""
        self.shards.check()
        wanted = self.wanted(columns)
        decoded = self.decode(rows, wanted)
        for row, fault, column in decoded.faults:
            raise self.shards.error(int(rows[row]), fault, wanted[column][0] if column >= 0 else None)
        return self.shape(decoded, wanted, rows)

    def usable(self, rows: Ints) -> Ints:
        """Those of the records that are intact."""
        bad = {row for row, _, _ in self.decode(rows, self.wanted()).faults}
        return rows[[at for at in range(len(rows)) if at not in bad]] if bad else rows

    def shape(self, decoded: Decoded, wanted: Wanted, rows: Ints) -> dict[str, Column]:
        """Give decoded columns the types and shapes of the schema."""
        shaped: dict[str, Any] = {}
        for (name, _, kind), found in zip(wanted[: len(decoded.columns)], decoded.columns, strict=True):
            feature = self.stored.features.get(name)
            if feature is None:  # one of the two lists of a sparse feature
                self._join(shaped, name, as_ragged(to_column(found)) if len(rows) else _no_list(kind), rows)
                continue
            try:
                column = shape_column(to_column(found), feature, name=name) if len(rows) else _no_rows(feature)
            except SchemaMismatch as error:
                raise self._mismatch(error, name, rows) from None
            # An optional feature is ragged even if all these rows have it: a batch depends on its features only.
            shaped[name] = column if feature.required or feature.sequence else _with_presence(as_ragged(column))
        self._add_joined(shaped, [name for name, _, _ in wanted[len(decoded.columns) :]], rows)
        known = dict(self.stored.features) if self.changes else {}
        for name, function, feature in self.changes:
            if name in shaped:
                shaped[name] = self._changed(shaped[name], (name, function, feature), known[name], rows)
            known[name] = feature
        return shaped

    def _add_joined(self, shaped: dict[str, Any], wires: Sequence[str], rows: Ints) -> None:
        for join in self.joins:
            features = join.split.schema.features
            names = [name for name in features if any(wire in wires for wire in wire_features({name: features[name]}))]
            if not names:
                continue
            try:
                shaped |= join.read(rows, names)
            except SchemaMismatch as error:
                if not error.at.startswith("record "):
                    raise
                row, _, name = error.at.removeprefix("record ").partition("/")
                place = self.shards.place(int(rows[int(row)]))
                raise SchemaMismatch(error.what, at=f"{place}/{name}") from None

    def _changed(self, column: Column, change: Change, before: Feature, rows: Ints) -> Any:
        """A column after a function of `map`."""
        name, function, feature = change
        values: list[Any] = []
        for at, row in enumerate(rows.tolist()):
            sample = sample_at({name: column}, {name: before}, at)
            try:
                values.append(function(sample[name]) if name in sample else None)
            except Exception as error:
                error.add_note(f"It is {name} of {self.shards.place(row)}.")
                raise
        found = column_of(values, feature, name=name)
        return found if feature.required else _with_presence(as_ragged(found))

    def _join(self, shaped: dict[str, Any], part: str, column: Ragged, rows: Ints) -> None:
        """Keep the indices of a sparse feature until its values come, then join them."""
        name, _, which = part.rpartition("/")
        if which == "indices":
            shaped[name] = column
            return
        feature = self.stored[name]
        if not len(column.values):  # an empty list has no type
            column = Ragged(np.empty(0, feature.dtype), column.row_splits)
        try:
            shaped[name] = join_sparse(name, shaped[name], column, feature.shape[0] or 0)
        except SchemaMismatch as error:
            raise self._mismatch(error, name, rows) from None

    def _mismatch(self, error: SchemaMismatch, name: str, rows: Ints) -> SchemaMismatch:
        """The same error, with the record that it is about."""
        row = int(error.at.removeprefix("record ").split("/")[0]) if error.at.startswith("record ") else 0
        shard, record = self.shards.locate(int(rows[row]))
        paths = repr(str(self.paths[0])) if len(self.paths) == 1 else "PATHS"  # a schema of one file fits no other
        look = f"bushel.open({paths}, schema=bushel.infer_schema({paths}))"
        skip = 'To leave out records that differ: on_fault="skip".'
        help = [] if self._schema else [f"Only the first records were looked at; this looks at all: {look}"]
        help = help if len(self.paths) == 1 else [*help, skip]
        return SchemaMismatch(error.what, at=f"{shard.path}: record {record}/{name}", help=help)

    def values(self, name: str) -> Column:
        """One feature of all records: from the indexes if they have it, otherwise read."""
        if (carried := self._carried(name)) is not None:
            return carried
        rows = self._all_rows
        pieces = [self.read(rows[at : at + _AT_A_TIME], [name]) for at in range(0, len(rows), _AT_A_TIME)]
        return concatenate([piece[name] for piece in pieces]) if pieces else np.empty(0, np.int64)

    def _carried(self, name: str) -> NDArray[Any] | None:
        """The values of a feature, if the indexes have them."""
        place = "label" if name == self.label else name
        is_made = any(name == changed for changed, _, _ in self.changes) or self._join_of(name) is not None
        carried = None if is_made else self.shards.values(place)
        if carried is None or any(place in shard.index.hashed for shard in self.shards.shards):
            return None
        return carried if self.rows is None else carried[self.rows]

    def lengths(self, name: str) -> Ints:
        """How many values of a feature each record of the shards has: from the indexes, or counted now."""
        if (join := self._join_of(name)) is not None:
            return join.lengths(name)
        carried = self.shards.values(f"length/{name}")
        if carried is not None:
            return carried.astype(np.int64, copy=False)
        wanted, rows = self.wanted([name]), np.arange(len(self.shards), dtype=np.int64)
        pieces = [self.shards.decode(rows[at : at + _AT_A_TIME], wanted) for at in range(0, len(rows), _AT_A_TIME)]
        # A damaged record has no values; reading it finds the damage again, and handles it by the policy.
        return np.concatenate([row_lengths(to_column(piece.columns[0])) for piece in pieces] or [rows])

    def __getstate__(self) -> dict[str, Any]:
        joins = tuple(replace(join, split=copy(join.split)) for join in self.joins)
        return {key: value for key, value in self.__dict__.items() if key != "shards"} | {"joins": joins}

    def filter(self, condition: str) -> Split:
        """The records that meet a condition; the index is used where it has the values.

        >>> train.filter("width >= 64 and label == 'cat'")
        >>> train.filter("age is not missing and length(tokens) < 512 or city in ['Bern', 'Basel']")
        """
        codes = {self.label: self.classes} if self.classes else {}
        return self._meeting(parse(condition, list(self.schema), codes))

    def where(self, name: str, value: Any) -> Split:
        """The records whose feature has this value, or one of these values."""
        if name not in self.schema:
            raise MissingName("feature", name, self.schema, where=self.paths[0])
        return self._meeting(one_of(name, value))

    def _meeting(self, condition: Expression) -> Split:
        known = {name: column for name in condition.names if (column := self._carried(name)) is not None}
        rows = self._all_rows
        lengths = {name: self.lengths(name)[rows] for name in condition.lengths}
        others = [name for name in condition.names if name not in known]
        found: list[Ints] = []
        for at in range(0, len(rows), _AT_A_TIME):
            end = min(at + _AT_A_TIME, len(rows))
            columns = {name: cut(column, at, end) for name, column in known.items()}
            columns |= self.read(rows[at:end], others) if others else {}
            counts = {name: values[at:end] for name, values in lengths.items()}
            found.append(at + np.flatnonzero(condition(columns, counts, end - at)))
        return self.select(np.concatenate([*found, np.empty(0, np.int64)]))

    @overload
    def select(self, chosen: Ints | Sequence[int]) -> Split: ...
    @overload
    def select(self, chosen: Sequence[str]) -> Split: ...
    def select(self, chosen: Any) -> Split:
        """Only these records, by number and in this order; or only these features, by name."""
        if isinstance(chosen, str):
            raise ValueError(f"select takes a list of names or numbers, got the string {chosen!r}")
        if len(chosen) and isinstance(chosen[0], str):
            self.wanted(chosen)
            return self.but(_schema=_only(self.schema, chosen), _stored=_only(self.stored, chosen))
        return self.but(rows=self._rows_at(np.asarray(chosen, np.int64)), parts=())

    def sort(self, name: str, *, descending: bool = False) -> Split:
        """The records in the order of a feature with one value each; those that lack it come last."""
        column: Any = self.values(name)
        rows = np.arange(len(self))
        if isinstance(column, Ragged):
            if column.present is None or (column.lengths > 1).any():
                raise SchemaMismatch("records are sorted by a feature of one value", at=name)
            rows, column = np.flatnonzero(column.present), column.values
        if isinstance(column, BytesColumn):
            order = np.array(sorted(range(len(column)), key=column.to_list().__getitem__, reverse=descending), np.int64)
        else:
            values = np.asarray(column)
            if values.ndim != 1:
                raise SchemaMismatch("records are sorted by a feature of one value", at=name)
            order = np.argsort(values[::-1], kind="stable") if descending else np.argsort(values, kind="stable")
            order = (len(values) - 1 - order)[::-1] if descending else order
        ordered = rows[order]
        return self.select(np.concatenate([ordered, np.setdiff1d(np.arange(len(self)), ordered)]))

    def sample(self, count: int, *, seed: int = 0) -> Split:
        """Some records, drawn at random without replacement; all of them if there are fewer."""
        if count < 1:
            raise ValueError(f"count must be at least 1, got {count}")
        chosen = np.random.default_rng(seed).choice(len(self), min(count, len(self)), replace=False)
        return self.select(chosen.astype(np.int64))

    def map(self, name: str, function: Callable[[Any], Any]) -> Split:
        """The same records with one feature changed by a function of its value, each time they are read.

        >>> train.map("label", lambda label: label % 2)
        """
        if name not in self.schema:
            raise MissingName("feature", name, self.schema, where=self.paths[0])
        if not len(self):
            raise ValueError("map needs at least one record, to see what the function returns")
        first = self.read(self._rows_at(np.zeros(1, np.int64)), [name])
        value = sample_at(first, self.schema.features, 0).get(name)
        feature = feature_of(function(value), name=name)
        feature = msgspec.structs.replace(feature, required=self.schema[name].required)
        changed = msgspec.structs.replace(self.schema, features={**self.schema.features, name: feature})
        return self.but(_schema=changed, _stored=self.stored, changes=(*self.changes, (name, function, feature)))

    def view(self, *, height: int = 640) -> Any:
        """The records as a page in the cell of a notebook; elsewhere, the link to it.

        >>> train.filter("label == 'cat'").view()
        """
        import bushel

        return bushel.view(self, height=height)

    def stream(self, columns: Sequence[str] | None = None) -> RecordStream:
        """The records as Arrow, a few megabytes at a time."""
        need_arrow("a stream of Arrow")
        return RecordStream(
            schema=self.schema if columns is None else _only(self.schema, [name for name, *_ in self.wanted(columns)]),
            classes={self.label: self.classes} if self.classes else {},
            rows=self._all_rows,
            read=partial(self.read, columns=columns),
            in_order=self.is_sequential,
        )

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """What Arrow's libraries ask for: `pl.DataFrame(split)`, `pa.table(split)`, `duckdb.sql("from split")`."""
        return self.stream().reader().__arrow_c_stream__(requested_schema)

    def to_arrow(self, columns: Sequence[str] | None = None) -> Any:
        """All records as an Arrow table, in memory."""
        need_arrow("to_arrow")
        return self.stream(columns).reader().read_all()

    def to_pandas(self, columns: Sequence[str] | None = None) -> Any:
        """All records as a pandas DataFrame, in memory; class names instead of codes."""
        if importlib.util.find_spec("pandas") is None:
            raise ImportError("to_pandas needs pandas: pip install pandas")
        need_arrow("to_pandas")
        table = self.to_arrow(columns)
        frame = table.to_pandas()
        for name in table.column_names:
            if hasattr(table.schema.field(name).type, "permutation"):  # tensors, which pandas would lay flat
                frame[name] = [cell.to_numpy() if cell.is_valid else None for cell in table.column(name)]
        return frame

    def but(self, **changed: Any) -> Split:
        """The same split with some attributes changed."""
        chosen = object.__new__(type(self))
        chosen.__dict__.update(self.__dict__)
        if "_schema" in changed:
            chosen.__dict__.pop("schema", None)
        chosen.__dict__.update(changed)
        return chosen


def _only(schema: Schema, names: Sequence[str]) -> Schema:
    features = {name: schema.features[name] for name in names}
    return msgspec.structs.replace(schema, features=features)


def _no_rows(feature: Feature) -> Column:
    inner = [size for size in feature.shape if size is not None]
    is_text = feature.kind == BYTES_KIND and feature.encoding != "raw"
    values: Column = BytesColumn.of([]) if is_text else np.empty((0, *inner), feature.value_dtype)
    return Ragged(values, np.zeros(1, np.int64)) if feature.is_ragged or feature.sequence else values


def _no_list(kind: int) -> Ragged:
    return Ragged(np.empty(0, np.int64 if kind == INT_KIND else np.float32), np.zeros(1, np.int64))


def _with_presence(column: Ragged) -> Ragged:
    return (
        column if column.present is not None else Ragged(column.values, column.row_splits, np.ones(len(column), bool))
    )


def mix(splits: Sequence[Split], weights: Sequence[float] | None = None) -> Split:
    """Several splits as one that draws from each in proportion to its weight (default: to its size).

    An epoch has as many records as all splits together; each split continues where the last epoch left off.
    """
    if not splits:
        raise ValueError("splits must name at least one split, got none")
    shares = [len(split) for split in splits] if weights is None else list(weights)
    if len(shares) != len(splits) or min(shares) < 0 or sum(shares) <= 0:
        raise ValueError(f"weights must be {len(splits)} numbers of at least 0 that are not all 0, got {shares}")
    if any(split.is_raw for split in splits):
        raise ValueError("splits to be mixed must be of datasets: build raw data first (bushel.build)")
    if any(split.joins for split in splits):
        raise ValueError("splits to be mixed must be of one dataset each: mix them first, and then join (bushel.join)")
    parts: list[Share] = []
    rows: list[Ints] = []
    first = count = 0
    for split, share in zip(splits, shares, strict=True):
        own = np.arange(len(split.shards), dtype=np.int64) if split.rows is None else split.rows
        parts.append(Share(count, len(own), float(share)))
        rows.append(own + first)
        count += len(own)
        first += len(split.shards)
    schema = splits[0].schema
    for split in splits[1:]:
        if differing := [str(d) for d in schema.differences(split.schema)]:
            raise SchemaMismatch(f"splits to be mixed must hold the same: {differing[0]}", at=str(split.paths[0]))
    paths = [path for split in splits for path in split.paths]
    name = "+".join(split.name for split in splits)
    promised = [shard for split in splits for shard in split.promised or ()]
    promise = promised if len(promised) == len(paths) else None
    return Split(name, paths, schema, label=splits[0].label, rows=np.concatenate(rows), parts=parts, promised=promise)
