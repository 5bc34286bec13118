"""TFRecord files as a source, whoever wrote them: to shard, compress, split or select again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.columns import BytesColumn, Column, Ragged, concatenate, join_sparse, take
from bushel.data.schema import BYTES_KIND, INT_KIND, Feature, Schema, read_sidecar, wire_features
from bushel.data.splits import splits_of_shards
from bushel.errors import Fault, FileProblem, MissingName, SchemaMismatch, fault_words
from bushel.records.files import CHUNK_BYTES, RecordFile, Skipped, leave_out_empty, open_file, parse_elwc
from bushel.records.index import StaleIndex, load_index
from bushel.records.manifest import Manifest, has_manifest, read_manifest
from bushel.records.scan import payloads, shape_columns, to_column
from bushel.records.survey import infer_schema
from bushel.sources.in_memory import number_keys
from bushel.sources.protocol import (
    Block,
    Listing,
    Reads,
    Refused,
    Source,
    as_given,
    check_values,
    fingerprint_of,
    recipe_table,
)
from bushel.sources.tables.row_sources import RowSource
from bushel.sources.tables.table_files import as_text, named
from bushel.storage import AnyPath, as_path, list_files, load_bytes, local_copy, shard_paths
from bushel.storage.file_kinds import has_record_name

__all__ = ["RecordSource", "elwc", "records"]

_BLOCK_BYTES = 8 << 20
_BLOCK_ROWS = 16384
_LOST = np.uint64(1 << 62)  # marks a record that is missing; its length is then the fault


def records(
    paths: AnyPath | Iterable[AnyPath],
    *,
    columns: Annotated[Sequence[str] | None, "Features to keep (default: all)"] = None,
    key: Annotated[str | None, "Feature that identifies a record (default: `key`, or the record's number)"] = None,
) -> RecordSource:
    """Take samples from TFRecord files: a bushel dataset, or any files, folders and patterns.

    The schema is that of the dataset, or the one next to the first file, or inferred from all records. `columns`
    chooses features; `key` names the feature that is a record's key (default: `key`, if there is one). Plain files are
    read at random, compressed ones in sequence. Records that are damaged are refused one by one.
    """
    arguments = locals()
    given = as_given(paths)
    files = tuple(str(path) for path in _record_files(given))
    source = RecordSource(
        files, recipe_table(records, given, arguments), None if columns is None else tuple(columns), key
    )
    for name in (*(columns or ()), *([key] if key else [])):
        if name not in source.whole_schema:
            raise MissingName("feature", name, source.whole_schema, where=files[0])
    return source


def _record_files(given: str | list[str]) -> list[Path]:
    """The files at these paths: the shards of a dataset, or the files of a folder that are named like TFRecords."""
    files: list[Path] = []
    for path in [given] if isinstance(given, str) else given:
        folder = as_path(path)
        if has_manifest(folder):
            splits = read_manifest(folder).splits.values()
            names = [shard.path for split in splits for shard in split.shards if shard.records]
            files.extend(shard_paths(folder, names))
        elif folder.is_dir():
            found = list_files(folder)
            files.extend([file for file in found if has_record_name(file.name)] or found)
        else:
            files.extend(list_files(folder))
    if not files:
        raise FileProblem(given if isinstance(given, str) else given[0], "there are no records in this dataset")
    return leave_out_empty(files)


@dataclass(frozen=True)
class RecordSource(Source):
    """Samples from TFRecord files, one partition each."""

    files: tuple[str, ...]
    recipe: dict[str, Any]
    columns: tuple[str, ...] | None = None
    key: str | None = None

    @cached_property
    def reads(self) -> Reads:
        """At random, unless a file is compressed."""
        return "sequence" if any(open_file(as_path(file)).compression for file in self.files) else "random"

    @cached_property
    def manifest(self) -> Manifest | None:
        """The label of the dataset, if the files belong to one."""
        folder = as_path(self.files[0]).parent
        return read_manifest(folder) if has_manifest(folder) else None

    @cached_property
    def names(self) -> dict[str, tuple[str, ...]]:
        """Names of classes by the feature that holds their codes: a new dataset numbers them again."""
        label = self.manifest.label if self.manifest else None
        return {label.feature: tuple(label.names)} if label and label.names else {}

    @cached_property
    def whole_schema(self) -> Schema:
        """All features that the records have."""
        if self.manifest is not None:
            features = dict(self.manifest.schema.features)
            features |= {name: Feature(dtype="str", shape=features[name].shape) for name in self.names}
            return Schema(features=features, record=self.manifest.schema.record)
        first = as_path(self.files[0])
        schema = read_sidecar(first) or infer_schema(self.files)
        if not len(schema):
            raise FileProblem(first, "its records are not Examples")
        return Schema(features=schema.features, record=schema.record)

    def schema(self) -> Schema:
        """The features chosen."""
        whole = self.whole_schema
        return whole.select([*self.columns]) if self.columns is not None else whole

    @cached_property
    def key_feature(self) -> str | None:
        """The feature that is the key; None where records are numbered."""
        if self.key is not None:
            return self.key
        feature = self.whole_schema.features.get("key")
        is_key = feature is not None and feature.required and feature.shape == () and feature.kind == BYTES_KIND
        return "key" if is_key else None

    @cached_property
    def splits(self) -> tuple[str | None, ...]:
        """The split of each file, from the manifest or from its name."""
        stated: dict[str, str] = {}
        if self.manifest is not None:
            stated = {shard.path: name for name, split in self.manifest.splits.items() for shard in split.shards}
        named = splits_of_shards([Path(file) for file in self.files])
        return tuple(stated.get(Path(file).name) or split for file, split in zip(self.files, named, strict=True))

    @cached_property
    def short_names(self) -> list[str]:
        """The name of each file, with its folder if several have the same, and with the whole path if need be."""
        for depth in (1, 2):
            names = ["/".join(Path(file).parts[-depth:]) for file in self.files]
            if len(set(names)) == len(names):
                return names
        return list(self.files)

    @property
    def split(self) -> str | None:
        """`split`, if all file names have one, or if records do."""
        if "split" in self.whole_schema or all(split is not None for split in self.splits):
            return "split"
        return None

    def file_of(self, partition: int) -> Path | None:
        """Each partition is a file."""
        return as_path(self.files[partition])

    def partitions(self) -> int:
        """One per file."""
        return len(self.files)

    @cached_property
    def extents(self) -> dict[int, NDArray[np.uint64]]:
        """Where records are, by partition, for partitions that were needed."""
        return {}

    def _extents(self, partition: int) -> NDArray[np.uint64]:
        """Where the records of a plain file are: from its index, or from a scan of their headers."""
        if partition not in self.extents:
            path = as_path(self.files[partition])
            try:
                index = load_index(path)
            except StaleIndex:
                index = None
            if index is not None and index.compression is None:
                self.extents[partition] = index.extents
            else:
                found = [extents for _, extents in _with_losses(open_file(path))]
                self.extents[partition] = np.concatenate(found or [np.empty((0, 2), np.uint64)])
        return self.extents[partition]

    def list(self, partition: int, columns: Sequence[str]) -> Listing:
        """Keys, and the requested columns; values of damaged records are missing."""
        whole = self.whole_schema
        wanted = [name for name in columns if name in whole]
        names = list(dict.fromkeys([*wanted, *([self.key_feature] if self.key_feature else [])]))
        parts: dict[str, list[Column]] = {name: [] for name in names}
        sizes: list[NDArray[np.int64]] = []
        for memory, extents in _with_losses(open_file(as_path(self.files[partition]))):
            sizes.append(np.where(extents[:, 0] == _LOST, 0, extents[:, 1]).astype(np.int64))
            found = self._decode(memory, extents, names)[0] if names else {}
            for name, column in found.items():
                parts[name].append(column)
        lengths = np.concatenate(sizes or [np.empty(0, np.int64)])
        listed = self._named({name: concatenate(parts[name]) for name in names if parts[name]})
        split = self.splits[partition]
        found_columns = {name: listed[name] for name in wanted if name in listed}
        if "split" in columns and "split" not in found_columns and split is not None:
            found_columns["split"] = BytesColumn.of([split]).take(np.zeros(len(lengths), np.int64))
        keys = self._keys(listed, partition, len(lengths))
        return Listing(keys, found_columns, lengths)

    def _keys(self, listed: dict[str, Column], partition: int, rows: int) -> BytesColumn:
        prefix = f"{self.short_names[partition]}:" if len(self.files) > 1 else ""
        column = listed.get(self.key_feature or "")
        if column is None or not isinstance(column, BytesColumn | np.ndarray):
            return number_keys(0, rows, prefix)
        return as_text(column)

    def read(self, partition: int, rows: NDArray[np.int64] | None) -> Iterator[Block]:
        """Records by number, or all in order."""
        if self.reads == "sequence":
            if rows is not None:
                raise ValueError("rows must be None: compressed records are read in sequence")
            yield from self._read_in_sequence(partition)
            return
        extents = self._extents(partition)
        wanted = np.arange(len(extents)) if rows is None else np.asarray(rows, np.int64)
        path = as_path(self.files[partition])
        memory = load_bytes(local_copy(path))
        start = 0
        while start < len(wanted):
            sizes = np.cumsum(extents[wanted[start : start + _BLOCK_ROWS], 1])
            stop = start + max(1, int(np.searchsorted(sizes, _BLOCK_BYTES)))
            picked = wanted[start:stop]
            yield self._block(memory, np.ascontiguousarray(extents[picked]), picked)
            start = stop

    def _read_in_sequence(self, partition: int) -> Iterator[Block]:
        row = 0
        for memory, extents in _with_losses(open_file(as_path(self.files[partition])), _BLOCK_BYTES):
            numbers = np.arange(row, row + len(extents))
            row += len(extents)
            yield self._block(memory, extents, numbers)

    def _block(self, memory: Any, extents: NDArray[np.uint64], rows: NDArray[np.int64]) -> Block:
        schema = self.schema()
        columns, bad = self._decode(memory, extents, [*wire_features(schema.features)])
        bad = {**_misfits(columns, schema), **bad}
        if bad:
            kept = np.setdiff1d(np.arange(len(rows)), list(bad))
            columns = {name: _all_present(take(column, kept)) for name, column in columns.items()}
        else:
            kept = np.arange(len(rows))
        shaped = shape_columns(self._named(columns), schema)
        refused = [Refused(int(rows[row]), "read", why) for row, why in sorted(bad.items())]
        return Block(rows[kept], shaped, refused)

    def _decode(
        self, memory: Any, extents: NDArray[np.uint64], names: Sequence[str]
    ) -> tuple[dict[str, Column], dict[int, str]]:
        """Columns as stored, one row per record, and what is wrong with damaged records."""
        wires = wire_features(self.whole_schema.features)
        asked = [(name, wires[name].sequence, INT_KIND if name in self.names else wires[name].kind) for name in names]
        found, faults, _ = _native.decode(memory, extents, asked, True, 1, False)
        bad: dict[int, str] = {}
        for row, fault, number in faults:
            if extents[row, 0] == _LOST:
                bad[row] = fault_words(Fault(int(extents[row, 1])))
                continue
            at = f"{names[number]}: " if number >= 0 else ""
            bad.setdefault(row, at + fault_words(Fault(fault)))
        columns = {name: to_column(column) for name, column in zip(names, found, strict=True)}
        return columns, bad

    def _named(self, columns: dict[str, Column]) -> dict[str, Column]:
        return {
            name: named(column, self.names[name]) if name in self.names else column for name, column in columns.items()
        }

    def locate(self, partition: int, row: int) -> str:
        """The file and the number of the record."""
        return f"{self.files[partition]}: record {row}"

    def fingerprint(self) -> str:
        """Names, sizes and times of the files, and the options."""
        return fingerprint_of(self.files, self.describe())

    def describe(self) -> dict[str, Any]:
        """The paths and options."""
        return dict(self.recipe)

    def __getstate__(self) -> dict[str, Any]:
        stated = {name: value for name, value in self.__dict__.items() if name != "extents"}
        return stated | {"whole_schema": self.whole_schema, "reads": self.reads}


def _misfits(columns: dict[str, Column], schema: Schema) -> dict[int, str]:
    """Rows whose indices and values are not a sparse vector, and why."""
    found: dict[int, str] = {}
    for name, feature in schema.features.items():
        if feature.encoding != "sparse":
            continue
        places, values, size = columns[f"{name}/indices"], columns[f"{name}/values"], feature.shape[0] or 0
        try:
            join_sparse(name, places, values, size)
        except SchemaMismatch:
            for row in range(len(places)):
                at = np.array([row])
                try:
                    join_sparse(name, take(places, at), take(values, at), size)
                except SchemaMismatch as error:
                    found.setdefault(row, f"{name}: {error.message.partition(' - at ')[0]}")
    return found


def _with_losses(file: RecordFile, max_bytes: int = CHUNK_BYTES) -> Iterator[tuple[Any, NDArray[np.uint64]]]:
    """The chunks of a file. A stretch that damage makes unreachable counts as one record, so that it is refused."""
    lost: list[Skipped] = []
    memory: Any = None
    extents = np.empty((0, 2), np.uint64)
    for chunk in file.chunks(on_fault=lost.append, max_bytes=max_bytes):
        extents = np.concatenate([extents, _places_of(lost)])
        if memory is not None:
            yield memory, extents
            extents = extents[:0]
        memory, extents = chunk.memory, np.concatenate([extents, chunk.extents])
        lost.clear()
    if memory is not None:
        yield memory, np.concatenate([extents, _places_of(lost)])


def _places_of(lost: Sequence[Skipped]) -> NDArray[np.uint64]:
    return np.array([(_LOST, int(skipped.fault)) for skipped in lost], np.uint64).reshape(-1, 2)


def _all_present(column: Column) -> Column:
    """Make a column plain after the rows that lacked it were removed."""
    if not isinstance(column, Ragged) or column.present is None or not column.present.all():
        return column
    if len(column) and (column.lengths == column.lengths[0]).all() and isinstance(column.values, np.ndarray):
        width = int(column.lengths[0])
        return column.values if width == 1 else column.values.reshape(len(column), width)
    return column.values if (column.lengths == 1).all() else Ragged(column.values, column.row_splits)


def elwc(
    path: AnyPath, *, key: Annotated[str | None, "Feature of the context that identifies a list"] = None
) -> RowSource:
    """Take a sample from each ExampleListWithContext of TFRecord files: its context, and a list of each feature.

    A feature that some examples lack, or of which they have different numbers of values, is all values one after
    another, and `FEATURE/lengths` says how many each example has.
    """
    given = locals()
    check_values(elwc, given)
    files = list_files(path)
    lists = _Lists.of(files)
    return RowSource(partial(_read, files, lists), files, recipe_table(elwc, as_given(path), given), key)


_Message: TypeAlias = tuple[dict[str, Any], list[dict[str, Any]]]  # the features of the context and of each example


def _messages(files: list[Path]) -> Iterator[_Message]:
    for file in files:
        for number, data in enumerate(payloads(file)):
            found = parse_elwc(data)
            if found is None:
                raise FileProblem(file, f"record {number} is not an ExampleListWithContext")
            yield found


@dataclass(frozen=True)
class _Lists:
    """Features of examples over all records."""

    dtypes: dict[str, str]  # of numbers; empty for bytes
    uneven: frozenset[str]  # that some examples lack, or of which they have different numbers of values
    shared: frozenset[str]  # names that a context has, too

    @classmethod
    def of(cls, files: list[Path]) -> _Lists:
        """Look at all records: one may be uneven where all others are not."""
        sizes: dict[str, set[int]] = {}
        contexts: set[str] = set()
        having: dict[str, int] = {}
        dtypes: dict[str, str] = {}
        seen = 0
        for context, examples in _messages(files):
            contexts.update(context)
            seen += len(examples)
            for example in examples:
                for name, values in example.items():
                    sizes.setdefault(name, set()).add(len(values))
                    having[name] = having.get(name, 0) + 1
                    if len(values) or name not in dtypes:  # an empty list has no type of its own
                        dtypes[name] = "" if isinstance(values, list) else values.dtype.name
        if not sizes and not contexts:
            raise FileProblem(files[0], "no feature was found in its records")
        uneven = {name for name, own in sizes.items() if len(own) > 1 or own == {0} or having[name] < seen}
        return cls(dtypes, frozenset(uneven), frozenset(contexts & set(sizes)))


def _read(files: list[Path], lists: _Lists) -> Iterator[dict[str, Any]]:
    for context, examples in _messages(files):
        yield _sample(context, examples, lists)


def _sample(context: dict[str, Any], examples: list[dict[str, Any]], lists: _Lists) -> dict[str, Any]:
    """The features of the context as values or lists, and those of the examples as lists."""
    sample = {name: values[0] if len(values) == 1 else values for name, values in context.items()}
    for name, dtype in lists.dtypes.items():
        values = [example.get(name, ()) for example in examples]
        plain = [one for own in values for one in own]
        whole = name if name not in lists.shared else f"list/{name}"
        if name in lists.uneven:
            sample[f"{whole}/lengths"] = np.array([len(own) for own in values], np.int64)
        elif values and len(values[0]) > 1:
            plain = [list(own) for own in values]
        sample[whole] = np.asarray(plain, dtype) if dtype else plain
    return sample
