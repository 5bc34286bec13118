"""Records to columns and samples, from any TFRecord files."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.columns import (
    BytesColumn,
    Column,
    Ragged,
    as_dense,
    as_ragged,
    concatenate,
    count_of,
    join_sparse,
    take,
    with_missing,
)
from bushel.data.samples import Sample
from bushel.data.schema import (
    BYTES_KIND,
    FLOAT_KIND,
    INT_KIND,
    NO_KIND,
    Feature,
    Schema,
    name_context,
    read_sidecar,
    wire_features,
)
from bushel.errors import CorruptRecord, Fault, FileProblem, MissingName, SchemaMismatch, quantity
from bushel.parallel import available_cores
from bushel.records.files import CHUNK_BYTES, Chunk, OnFault, RecordFile, Skipped, open_file
from bushel.records.manifest import list_shards
from bushel.storage import AnyPath

_PROBE = 1024  # records that show which features hold a single value, if there is no schema
_SMALL = 1 << 20  # bytes below which a second thread does not pay off
_WHOLE = 1 << 62


class SkippedRecords(UserWarning):
    """Records that were skipped because of `on_fault="skip"`."""


class Faults:
    """Handles faults by a policy, and keeps what was skipped."""

    def __init__(self, policy: OnFault) -> None:
        if policy not in ("raise", "skip"):
            raise ValueError(f"on_fault must be 'raise' or 'skip', got {policy!r}")
        self.policy = policy
        self.skipped: list[Skipped] = []
        self.others: list[FileProblem] = []  # files that are not those of their manifest

    def files_of(self, paths: AnyPath | Iterable[AnyPath]) -> list[Path]:
        """The files that paths name. Raise if one of a dataset is missing or has another size, or remember it."""
        files, self.others = list_shards(paths)
        if self.others and self.policy == "raise":
            raise self.others[0]
        return files

    def take(self, skipped: Skipped, feature: str | None = None) -> None:
        """Skip it, or raise."""
        if self.policy == "raise":
            raise CorruptRecord(
                skipped.path, record=skipped.record, offset=skipped.offset, fault=skipped.fault, feature=feature
            )
        self.skipped.append(skipped)

    def take_row(self, file: RecordFile, chunk: Chunk, row: int, fault: int, feature: str | None = None) -> None:
        """Handle the fault of one record of a chunk."""
        length = int(chunk.extents[row, 1]) + 16
        place = Skipped(str(file.path), chunk.first + row, chunk.offset(row), length, Fault(fault))
        self.take(place, feature)

    def warn(self) -> None:
        """Warn about what was skipped, if anything was."""
        if self.others:
            files = quantity(len(self.others), "file")
            stated = f"{files} not as the manifest says; the first: {self.others[0].message}"
            warnings.warn(stated, SkippedRecords, stacklevel=3)
        if not self.skipped:
            return
        first = self.skipped[0]
        error = CorruptRecord(first.path, record=first.record, offset=first.offset, fault=first.fault)
        count = len(self.skipped)
        text = f"{count} record{'s' * (count > 1)} skipped; the first: {error.message}"
        warnings.warn(text, SkippedRecords, stacklevel=3)


def read(
    paths: AnyPath | Iterable[AnyPath],
    columns: list[str] | None = None,
    *,
    schema: Schema | None = None,
    on_fault: OnFault = "raise",
    threads: int | None = None,
) -> dict[str, Column]:
    """Read whole files into columns: dense arrays, `Ragged`, or `BytesColumn`.

    A feature that holds the same number of values in every record is a dense array; one value is shape `(rows,)`.
    Checksums are verified. Without a schema (given, or next to the file), types are what the records hold.
    """
    faults = Faults(on_fault)
    files = faults.files_of(paths)
    schema = schema or read_sidecar(files[0])
    wanted = _wanted(columns, schema, files[0])
    reader = _Reader(wanted, faults, threads or available_cores(), discover=columns is None and schema is None)
    parts = [part for path in files for part in reader.read_file(open_file(path))]
    faults.warn()
    joined = reader.join(parts)
    if schema is not None:
        return shape_columns(joined, schema)
    for name in columns or ():
        if name not in joined:
            raise MissingName("feature", name, _probe_names(open_file(files[0])), where=files[0])
    return joined


def shape_columns(joined: dict[str, Column], schema: Schema) -> dict[str, Column]:
    """Give stored columns the types and shapes of a schema."""
    shaped: dict[str, Any] = {}
    for name, column in joined.items():
        sparse, _, part = name.rpartition("/")
        if name in schema:
            shaped[name] = shape_column(column, schema[name], name=name)
        elif part == "values":
            shaped[sparse] = join_sparse(sparse, joined[f"{sparse}/indices"], column, schema[sparse].shape[0] or 0)
    return shaped


Wanted: TypeAlias = dict[str, tuple[bool, int]]  # name -> is a feature list, kind


def _wanted(columns: list[str] | None, schema: Schema | None, first: Path) -> Wanted:
    if isinstance(columns, str):
        raise ValueError(f"columns must be a list of names, got the string {columns!r}")
    if schema is not None:
        for name in columns or ():
            if name not in schema:
                raise MissingName("feature", name, schema, where=first)
        features = wire_features({name: schema[name] for name in (columns or schema)})
        return {name: (feature.sequence, feature.kind) for name, feature in features.items()}
    found = _probe_names(open_file(first))
    if columns is None:
        return found
    # A feature that the first records lack may come later, but not as a feature list.
    return {name: found.get(name, (False, NO_KIND)) for name in columns}


def _probe_names(file: RecordFile) -> Wanted:
    for chunk in file.chunks(on_fault=lambda _: None):
        survey = _native.Survey()
        survey.add(chunk.memory, chunk.extents[:_PROBE], True)
        facts = survey.result()["features"]
        lists = {fact["name"] for fact in facts if fact["sequence"]}
        single = {name_context(fact["name"], lists): (False, NO_KIND) for fact in facts if not fact["sequence"]}
        return single | dict.fromkeys(lists, (True, NO_KIND))
    return {}


class _Reader:
    """Decodes chunks into columns, and makes sure that they agree."""

    def __init__(self, wanted: Wanted, faults: Faults, threads: int, *, discover: bool) -> None:
        self.wanted = wanted
        self.faults = faults
        self.threads = threads
        self.discover = discover

    def read_file(self, file: RecordFile) -> Iterator[dict[str, Column]]:
        # A mapped file is decoded in one go, straight into its result; a compressed one as it is inflated.
        max_bytes = _WHOLE if file.compression is None else CHUNK_BYTES
        for chunk in file.chunks(on_fault=self.faults.take, max_bytes=max_bytes):
            yield self.read_chunk(file, chunk)

    def read_chunk(self, file: RecordFile, chunk: Chunk) -> dict[str, Column]:
        names = list(self.wanted)
        found, bad, others = self._decode(chunk, names)
        if self.discover and others:
            self.wanted |= {name: (is_list, NO_KIND) for name, is_list in others}
            names += [name for name, _ in others]
            late, more_bad, _ = self._decode(chunk, names[len(found) :])
            more_bad = [(row, fault, column + len(found) if column >= 0 else -1) for row, fault, column in more_bad]
            found, bad = found + late, _first_of_each_row(bad, more_bad)
        for row, fault, column in bad:
            self.faults.take_row(file, chunk, row, fault, names[column] if column >= 0 else None)
        self._learn_kinds(names, found)
        part = {name: to_column(column) for name, column in zip(names, found, strict=True)}
        if bad:
            kept = np.setdiff1d(np.arange(len(chunk.extents)), [row for row, _, _ in bad])
            part = {name: self._kept(name, column, kept) for name, column in part.items()}
        return part

    def _decode(self, chunk: Chunk, names: list[str]) -> tuple[list[dict[str, Any]], list[tuple[int, int, int]], Any]:
        asked = [(name, *self.wanted[name]) for name in names]
        is_small = int(chunk.extents[-1].sum()) - int(chunk.extents[0, 0]) < _SMALL
        threads = 1 if is_small else self.threads
        return _native.decode(chunk.memory, chunk.extents, asked, True, threads, self.discover)

    def _kept(self, name: str, column: Column, rows: NDArray[np.intp]) -> Column:
        """The rows that are not at fault; a column that is ragged only because of the others becomes dense."""
        is_list, _ = self.wanted[name]
        return take(column, rows) if is_list else as_dense(take(column, rows))

    def _learn_kinds(self, names: list[str], found: list[dict[str, Any]]) -> None:
        for name, column in zip(names, found, strict=True):
            is_list, kind = self.wanted[name]
            self.wanted[name] = (is_list, kind or column["kind"])

    def join(self, parts: list[dict[str, Column]]) -> dict[str, Column]:
        """One column per feature, over all chunks; if a chunk lacks it, all its rows do."""
        joined: dict[str, Column] = {}
        for name, (_, kind) in self.wanted.items():
            if kind == NO_KIND:
                continue
            if not parts:
                joined[name] = BytesColumn.of([]) if kind == BYTES_KIND else np.empty(0, _DTYPES[kind])
                continue
            joined[name] = concatenate(
                [part[name] if not _is_absent(part.get(name)) else _absent(_rows(part), kind) for part in parts]
            )
        return joined


def _first_of_each_row(*faults: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """The faults of several passes over the same records: the first of each record."""
    by_row: dict[int, tuple[int, int, int]] = {}
    for fault in (fault for one_pass in faults for fault in one_pass):
        by_row.setdefault(fault[0], fault)
    return [by_row[row] for row in sorted(by_row)]


def _rows(part: dict[str, Column]) -> int:
    return len(next(iter(part.values()), ()))


def _is_absent(column: Column | None) -> bool:
    return column is None or (isinstance(column, Ragged) and column.present is not None and not column.present.any())


def _absent(rows: int, kind: int) -> Ragged:
    values: Column = BytesColumn.of([]) if kind == BYTES_KIND else np.empty(0, _DTYPES[kind])
    return Ragged(values, np.zeros(rows + 1, np.int64), np.zeros(rows, bool))


_DTYPES = {FLOAT_KIND: np.float32, INT_KIND: np.int64}


def to_column(decoded: dict[str, Any]) -> Column:
    """A column from the core as arrays."""
    values = _values(decoded)
    if decoded["step_splits"] is not None:
        return Ragged(values, decoded["step_splits"])
    return values


def _values(decoded: dict[str, Any]) -> Column:
    flat: Column = decoded["numbers"]
    if decoded["kind"] == BYTES_KIND:
        flat = BytesColumn(decoded["ends"], decoded["data"])
    elif decoded["kind"] == NO_KIND:
        flat = np.empty(0, np.float32)
    rows, width = decoded["rows"], decoded["width"]
    if not decoded["uniform"]:
        return Ragged(flat, decoded["splits"], decoded["present"])
    if width == 1:
        return flat
    if isinstance(flat, np.ndarray):
        return flat.reshape(rows, width)
    return Ragged(flat, np.arange(rows + 1) * width)


def shape_column(column: Column, feature: Feature, *, name: str) -> Column:
    """Give a stored column the type and shape of its schema."""
    if feature.reads_as:
        column = _retyped(column, feature, name)
    if feature.sequence and isinstance(column, Ragged):
        step = Feature(dtype=feature.dtype, shape=feature.shape, encoding=feature.encoding, reads_as=feature.reads_as)
        return Ragged(shape_column(column.values, step, name=name), column.row_splits, column.present)
    if isinstance(column, Ragged) and column.present is not None:
        if feature.required:
            row = int(np.argmin(column.present))
            raise SchemaMismatch("the feature is required but the record does not have it", at=f"record {row}/{name}")
        return _shape_some(column, column.present, feature, name) if feature.encoding == "raw" else column
    if feature.encoding == "raw":
        return _shape_raw(column, feature, name)
    if feature.is_ragged:
        return _shape_ragged(as_ragged(column), feature, name)
    if isinstance(column, Ragged) and isinstance(column.values, np.ndarray):
        if not len(column):
            return np.empty((0, *(size or 0 for size in feature.shape)), column.values.dtype)
        raise _wrong_count(int(np.argmax(column.lengths != count_of(feature.shape))), feature, name)
    if isinstance(column, np.ndarray):
        if column[:1].size not in (count_of(feature.shape), 0):
            raise _wrong_count(0, feature, name)
        return column.reshape(len(column), *(size or 0 for size in feature.shape))
    return column


def _retyped(column: Column, feature: Feature, name: str) -> Column:
    """A column in the type that its values had before they were stored."""
    if isinstance(column, Ragged):
        return Ragged(_retyped(column.values, feature, name), column.row_splits, column.present)
    wanted = np.dtype(feature.reads_as)
    if not isinstance(column, np.ndarray) or column.dtype == wanted:
        return column
    if wanted == np.uint64:
        return column.view(np.uint64)  # as TensorFlow Datasets stores them
    if wanted.kind != "f" and column.size:
        least, most = (0, 1) if wanted.kind == "b" else (int(np.iinfo(wanted).min), int(np.iinfo(wanted).max))
        if int(column.min()) < least or int(column.max()) > most:
            bad = column[(column < least) | (column > most)].flat[0]
            raise SchemaMismatch(f"{int(bad)} does not fit {feature.reads_as}, which the schema says", at=name)
    return column.astype(wanted)


def _shape_some(column: Ragged, present: NDArray[np.bool_], feature: Feature, name: str) -> Ragged:
    """Raw tensors that some rows lack: these rows have no values."""
    if (column.lengths[present] != 1).any():
        raise SchemaMismatch("a raw tensor must be one bytes value per record", at=name)
    return with_missing(_shape_raw(column.values, feature, name), present)


def _wrong_count(row: int, feature: Feature, name: str) -> SchemaMismatch:
    return SchemaMismatch(f"the record does not hold {feature.describe()}", at=f"record {row}/{name}")


def _shape_ragged(column: Ragged, feature: Feature, name: str) -> Ragged:
    inner = feature.shape[feature.shape.index(None) + 1 :]
    if not inner or not isinstance(column.values, np.ndarray):
        return column
    if feature.shape[0] is not None:
        raise ValueError(f"shape of {name!r}: only the first size may vary, got {feature.shape}")
    width = count_of(inner)
    if (bad := np.flatnonzero(column.lengths % width)).size:
        raise _wrong_count(int(bad[0]), feature, name)
    return Ragged(column.values.reshape(-1, *inner), column.row_splits // width, column.present)


def _shape_raw(column: Column, feature: Feature, name: str) -> Column:
    if not isinstance(column, BytesColumn):
        raise SchemaMismatch("a raw tensor must be one bytes value per record", at=name)
    dtype = np.dtype(feature.dtype).newbyteorder("<")
    inner = tuple(size for size in feature.shape if size is not None)
    step = dtype.itemsize * count_of(inner)
    expected = column.lengths == step if not feature.is_ragged else column.lengths % max(step, 1) == 0
    if not expected.all():
        row = int(np.argmin(expected))
        size = int(column.lengths[row])
        raise SchemaMismatch(
            f"{size} bytes are not {feature.describe()}, which takes {step}", at=f"record {row}/{name}"
        )
    values = column.data.view(dtype)
    if feature.is_ragged:
        return Ragged(values.reshape(-1, *feature.shape[1:]), column.offsets // step)
    return values.reshape(len(column), *inner)


def scan(
    paths: AnyPath | Iterable[AnyPath],
    columns: list[str] | None = None,
    *,
    schema: Schema | None = None,
    on_fault: OnFault = "raise",
) -> Iterator[Sample]:
    """Yield one sample after another, in bounded memory.

    A feature of shape `()` is an int, a float or bytes; any other is an array or a list of bytes. A feature that a
    record lacks is not in its sample. Without a schema, features with one value in each of the first 1,024 records of
    a file are assumed to have shape `()`.
    """
    faults = Faults(on_fault)
    for path in faults.files_of(paths):
        yield from _scan_file(open_file(path), columns, schema or read_sidecar(path), faults)
    faults.warn()


def _scan_file(file: RecordFile, columns: list[str] | None, schema: Schema | None, faults: Faults) -> Iterator[Sample]:
    sparse = _sparse_features(columns, schema)
    chunks: Iterator[Chunk] = map(Chunk.copied, file.chunks(on_fault=faults.take))
    single: set[str] = set()
    if schema is None:
        first = _first_chunks(chunks, is_whole=faults.policy == "raise")
        single, chunks = _single_valued(first), chain(first, chunks)
    for chunk in chunks:
        bad = {row: fault for row, fault, _ in _native.verify(chunk.memory, chunk.extents, 1)}
        for row in range(len(chunk.extents)):
            message = None if row in bad else _native.parse(chunk.payload(row))
            if message is None:
                faults.take_row(file, chunk, row, bad.get(row, Fault.MALFORMED))
                continue
            sample = to_sample(message, columns, schema, single)
            yield sample if not sparse else _with_sparse(sample, message, sparse)


def _first_chunks(chunks: Iterator[Chunk], *, is_whole: bool) -> list[Chunk]:
    """Chunks with the first records; where damage ends a chunk, it may hold few, or none that are intact."""
    found: list[Chunk] = []
    for chunk in chunks:
        found.append(chunk)
        if is_whole or sum(len(one.extents) for one in found) >= _PROBE:
            break
    return found


def _single_valued(chunks: Sequence[Chunk]) -> set[str]:
    survey = _native.Survey()
    left = _PROBE
    for chunk in chunks:
        survey.add(chunk.memory, chunk.extents[:left], True)
        left = max(0, left - len(chunk.extents))
    facts = survey.result()["features"]
    lists = {fact["name"] for fact in facts if fact["sequence"]}
    return {
        fact["name"] if fact["sequence"] else name_context(fact["name"], lists)
        for fact in facts
        if fact["min_count"] == fact["max_count"] == 1
    }


def name_parts(message: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The features and the feature lists of a record that was parsed, under names that no two share."""
    features, lists = message
    return {name_context(name, lists): values for name, values in features.items()}, lists


def to_sample(
    message: Any, columns: Collection[str] | None, schema: Schema | None, single: Collection[str] = ()
) -> Sample:
    """The values of a record that was parsed. `single` are features with one value, as far as no schema says it."""
    features, lists = name_parts(message)
    sample: Sample = {}
    for name, values in (*features.items(), *lists.items()):
        if columns is not None and name not in columns:
            continue
        feature = schema.features.get(name) if schema is not None else None
        is_list = name in lists
        if feature is not None:
            shaped = [shape_value(step, feature, name) for step in values] if is_list else None
            sample[name] = shaped if is_list else shape_value(values, feature, name)
        else:
            sample[name] = (
                [_bare(step, name in single) for step in values] if is_list else _bare(values, name in single)
            )
    return sample


def _sparse_features(columns: list[str] | None, schema: Schema | None) -> dict[str, Feature]:
    features = schema.features if schema is not None else {}
    return {
        name: feature
        for name, feature in features.items()
        if feature.encoding == "sparse" and (columns is None or name in columns)
    }


def _with_sparse(sample: Sample, message: Any, sparse: dict[str, Feature]) -> Sample:
    """A sample with the two lists of each sparse feature joined to one row."""
    for name, feature in sparse.items():
        parts = [sample.pop(part, message[0].get(part)) for part in (f"{name}/indices", f"{name}/values")]
        lists = [() if part is None else part for part in parts]
        places, values = Ragged.of(lists[:1], "int64"), Ragged.of(lists[1:], feature.dtype)
        sample[name] = join_sparse(name, places, values, feature.shape[0] or 0)[0]
    return sample


def _bare(values: Any, is_single: bool) -> Any:
    if not is_single or values is None or len(values) != 1:
        return values
    return values[0] if isinstance(values, list) else values[0].item()


def shape_value(values: Any, feature: Feature, name: str) -> Any:
    """One value in the form that its schema declares."""
    if values is None:
        return None
    if feature.encoding == "raw":
        return np.asarray(shape_column(BytesColumn.of(values), feature, name=name)[0])
    if feature.dtype == "str":
        values = [value.decode() for value in values]
    if feature.reads_as:
        values = _retyped(values, feature, name)
    if feature.is_one_value:
        return _bare(values, is_single=True)
    if isinstance(values, list) or feature.shape == (None,):
        return values
    return values.reshape([-1 if size is None else size for size in feature.shape])


def payloads(paths: AnyPath | Iterable[AnyPath], *, on_fault: OnFault = "raise") -> Iterator[bytes]:
    """Yield the data of each record, whatever it is."""
    faults = Faults(on_fault)
    for path in faults.files_of(paths):
        file = open_file(path)
        for chunk in map(Chunk.copied, file.chunks(on_fault=faults.take)):
            bad = {row: fault for row, fault, _ in _native.verify(chunk.memory, chunk.extents, 1)}
            for row in range(len(chunk.extents)):
                if row in bad:
                    faults.take_row(file, chunk, row, bad[row])
                else:
                    yield bytes(chunk.payload(row))
    faults.warn()
