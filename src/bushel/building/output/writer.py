"""Writing one TFRecord file, which gets its name when it is complete; repairing one writes what is intact."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import msgspec
import numpy as np

from bushel import _native
from bushel.data.columns import Column, SparseColumn, SparseRow, part_sparse
from bushel.data.encoding import Narrowings, Stored, store
from bushel.data.samples import as_column, column_of, feature_of, feature_of_column
from bushel.data.schema import (
    Feature,
    Schema,
    needs_sidecar,
    record_kind,
    sidecar_path,
    wire_features,
    write_sidecar,
)
from bushel.errors import BushelError, Fault, FileProblem, MissingName, SchemaMismatch
from bushel.parallel import available_cores
from bushel.records.deflated import Compressor
from bushel.records.files import Chunk, RecordFile, Skipped, open_file
from bushel.storage import AnyPath, as_path, describe_os_error, give_name, list_files, whole_path
from bushel.storage.file_kinds import SHARD_CODECS, Compression

__all__ = ["Lost", "NarrowedValues", "Repaired", "Sink", "Writer", "compressor", "repair"]


_BUFFER = 1 << 20
_LARGE = 1 << 16


class Sink:
    """Collects small writes and writes them in a thread, while the next records are encoded."""

    def __init__(self, path: Path, compression: Compression | None) -> None:
        self.path = path
        self._temporary = whole_path(path)
        try:
            self._file: IO[bytes] | None = self._temporary.open("wb", buffering=0)
        except OSError as error:
            raise describe_os_error(path, error) from None
        self._compress = compressor(compression)
        self._thread = ThreadPoolExecutor(1)
        self._under_way: Future[None] | None = None
        self._pending: list[Any] = []
        self._pending_bytes = 0

    def write(self, data: Any) -> None:
        """Add bytes, which must not change afterwards."""
        if self._file is None:
            raise ValueError(f"{self.path}: the writer is closed")
        self._pending.append(data)
        self._pending_bytes += len(data)
        if self._pending_bytes >= _BUFFER:
            self._flush()

    def _flush(self) -> None:
        self._wait()
        pending = self._pending
        self._pending, self._pending_bytes = [], 0
        if pending:
            self._under_way = self._thread.submit(self._put, pending)

    def _wait(self) -> None:
        """Wait for earlier bytes, and raise if they could not be written."""
        under_way, self._under_way = self._under_way, None
        if under_way is None:
            return
        try:
            under_way.result()
        except OSError as error:
            raise describe_os_error(self.path, error) from None

    def _put(self, pieces: list[Any]) -> None:
        # Small pieces are joined: one system call for many records.
        are_large = sum(len(piece) for piece in pieces) >= _LARGE * len(pieces)
        for data in pieces if are_large else [b"".join(pieces)]:
            self._put_all(data if self._compress is None else self._compress.compress(data))

    def _put_all(self, data: Any) -> None:
        assert self._file is not None
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) or 0 :]

    def close(self) -> None:
        """Write what is left, and give the file its name."""
        if self._file is None:
            return
        try:
            self._flush()
            self._wait()
            if self._compress is not None:
                self._put_all(self._compress.flush())
            self._file.close()
            give_name(self._temporary, self.path)
        except OSError as error:
            raise describe_os_error(self.path, error) from None
        self._file = None
        self._thread.shutdown()

    def __del__(self) -> None:
        # Does not wait for a thread: the garbage collector may run this while the threading module holds its locks.
        if getattr(self, "_file", None) is not None:
            self._temporary.unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove what was written."""
        self._thread.shutdown(cancel_futures=True)
        if self._file is not None:
            self._file.close()
            self._file = None
        self._temporary.unlink(missing_ok=True)


def compressor(compression: Compression | None) -> Compressor | None:
    """The compressor of a stream, or None."""
    return None if compression is None else Compressor(compression)


_BATCH_BYTES = 8 << 20  # encoded at a time, while the bytes before are written
_PARALLEL_ROWS = 64

# Why the core refused a sample; the numbers are those of its `Refusal`.
_UNKNOWN_TYPE, _TAKEN, _UNKNOWN, _MISSING, _WRONG_KIND, _SHAPE, _RANGE, _INEXACT, _TOO_LARGE = range(-1, 8)


class NarrowedValues(UserWarning):
    """Floats that were stored as float32 and are not exactly the same."""


class Writer:
    """Writes samples, or columns of them, to one file.

    The file appears under its name when the writer is closed without an error, not before. Without a schema, the first
    sample decides what each feature is, and lists may vary in length.

    >>> with bushel.Writer(path) as writer:
    ...     writer.write({"x": [1.0, 2.0], "label": 3})
    ...     writer.write_batch({"x": np.zeros((10, 2), np.float32), "label": np.arange(10)})
    """

    def __init__(self, path: AnyPath, *, compression: Compression | None = None, schema: Schema | None = None) -> None:
        if compression is not None and compression not in SHARD_CODECS:
            known = " or ".join(map(repr, SHARD_CODECS))
            raise ValueError(f"compression must be None, {known}; got {compression!r}")
        self.path = Path(path)
        self.records = 0
        self._declared = schema
        self._features: dict[str, Feature] = wire_features(schema.features) if schema else {}
        self._encoder = _native.SampleEncoder()
        self._narrowings = Narrowings()
        for name, feature in self._features.items():
            self._tell_encoder(name, feature)
        self._by_columns = any(_is_by_columns(feature) for feature in schema.features.values()) if schema else False
        self._sink = Sink(self.path, compression)

    @property
    def schema(self) -> Schema:
        """The declared schema, or the one found in the samples so far."""
        return self._declared or Schema(features=dict(self._features), record=record_kind(self._features))

    def write(self, sample: dict[str, Any]) -> None:
        """Write one sample: numbers, text, bytes, and lists or arrays of them, by feature name."""
        if self._by_columns:
            self._write_as_columns(sample)
            return
        record: Any = self._encoder.encode(sample)
        while not isinstance(record, bytes):
            sample = self._amend(sample, *record)
            record = self._encoder.encode(sample)
        self._sink.write(record)
        self.records += 1

    def write_batch(self, columns: dict[str, Any]) -> None:
        """Write many samples at once: for each feature, an array or list with one row per sample."""
        try:
            columns = self._parted(columns)
            stored = [self._store(name, as_column(values, name=name)) for name, values in columns.items()]
        except SchemaMismatch as error:
            raise SchemaMismatch(error.what, at=f"{self.path}: {error.at}", help=error.help) from None
        rows = {column.rows for column in stored}
        if len(rows) > 1:
            sizes = ", ".join(f"{column.name} {column.rows}" for column in stored)
            raise SchemaMismatch(f"columns must have the same number of rows, got {sizes}", at=str(self.path))
        self._check_complete(columns)
        self._write_stored(stored, rows.pop() if rows else 0)

    def close(self) -> None:
        """Finish the file and give it its name."""
        self._sink.close()
        if needs_sidecar(self.schema):
            write_sidecar(self.path, self.schema)
        else:
            sidecar_path(self.path).unlink(missing_ok=True)  # belongs to an earlier file
        for name, largest, value in self._encoder.narrowings():
            self._narrowings.add(name, largest, value)
        if self._narrowings:
            said = ", ".join(f"{name} (by up to {by:.3g}, at {at!r})" for name, (by, at) in self._narrowings.items())
            warnings.warn(f"{self.path}: floats narrowed to float32: {said}", NarrowedValues, stacklevel=2)

    def discard(self) -> None:
        """Give up and remove what was written."""
        self._sink.discard()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def _tell_encoder(self, name: str, feature: Feature) -> None:
        shape = (
            [] if feature.encoding in ("raw", "sparse") else [-1 if size is None else size for size in feature.shape]
        )
        self._encoder.add(name, feature.kind, shape, feature.required)

    def _amend(self, sample: dict[str, Any], refusal: int, name: str, at: int) -> dict[str, Any]:
        """The sample in a form that the core accepts, or with its feature adapted; raises if neither helps."""
        if not isinstance(name, str):
            raise SchemaMismatch(f"names of features must be str, got {type(name).__name__}", at=repr(name))
        if refusal == _MISSING:
            if self._declared is None:  # later samples may lack a feature of the first ones
                self._learn(name, _with(self._features[name], required=False))
                return sample
            raise SchemaMismatch("the feature is required but the sample does not have it", at=self._at(name))
        value = sample[name]
        if refusal == _UNKNOWN_TYPE:
            return {**sample, name: _as_known_type(value, self._at(name))}
        if refusal == _UNKNOWN:
            if self._declared is not None:
                raise MissingName("feature", name, self._declared, where=self._at(name))
            if isinstance(value, list | tuple) and not value:
                help = ["Declare the feature in a schema, or pass an array."]
                raise SchemaMismatch("the type of an empty list is unknown", at=self._at(name), help=help)
            self._learn(name, _with(feature_of(value, name=self._at(name)), required=self.records == 0))
            return sample
        if refusal == _SHAPE and self._relax(name, value):
            return sample
        raise self._refused(refusal, name, value, at)

    def _relax(self, name: str, value: Any) -> bool:
        """Let a list vary in length from now on, if no schema forbids it."""
        feature = self._features[name]
        if self._declared is not None or len(feature.shape) > 1 or np.ndim(value) > 1 or feature.is_ragged:
            return False
        self._learn(name, _with(feature, shape=(None,)))
        return True

    def _learn(self, name: str, feature: Feature) -> None:
        self._features[name] = feature
        self._tell_encoder(name, feature)

    def _refused(self, refusal: int, name: str, value: Any, at: int) -> BushelError:
        feature = self._features[name]
        cast = ["To cast it on purpose: Feature(dtype=..., cast=True) in the schema."]
        if refusal == _SHAPE:
            what = f"expected {feature.describe()}, got shape {np.shape(value)}"
            return SchemaMismatch(what, at=self._at(name))
        if refusal == _TOO_LARGE:
            return SchemaMismatch("the record would be larger than 2 GiB, which no reader accepts", at=self._at(None))
        if refusal == _WRONG_KIND:
            return SchemaMismatch(f"expected {feature.dtype}, got {_type_of(value)}", at=self._at(name), help=cast)
        number = np.asarray(value).reshape(-1)[at]
        place = self._at(name) + (f"[{at}]" if np.ndim(value) else "")
        why = {
            _RANGE: f"does not fit {feature.dtype}",
            _INEXACT: "is beyond 2^24, where float32 skips integers",
        }[refusal]
        return SchemaMismatch(f"{number} {why}", at=place, help=cast)

    def _at(self, name: str | None) -> str:
        return f"{self.path}: sample {self.records}" + (f"/{name}" if name is not None else "")

    def _store(self, name: str, column: Column) -> Stored:
        if name not in self._features:
            if self._declared is not None:
                raise MissingName("feature", name, self._declared, where=self.path)
            self._learn(name, _with(feature_of_column(column, name=name, is_text=False), required=self.records == 0))
        feature = self._features[name]
        if self._declared is None:
            feature = self._loosened(name, feature, column)
        return store(name, feature, column, self._narrowings)

    def _loosened(self, name: str, feature: Feature, column: Column) -> Feature:
        """The feature as known so far, widened to hold this column too if possible."""
        found = feature_of_column(column, name=name, is_text=False)
        if found.shape != feature.shape and len(found.shape) <= 1 and len(feature.shape) <= 1:
            feature = _with(feature, shape=(None,))
        if not found.required:
            feature = _with(feature, required=False)
        if feature != self._features[name]:
            self._learn(name, feature)
        return feature

    def _check_complete(self, columns: dict[str, Any]) -> None:
        for name, feature in self._features.items():
            if name in columns or not feature.required:
                continue
            if self._declared is not None:
                raise SchemaMismatch("the feature is required but the samples do not have it", at=self._at(name))
            self._learn(name, _with(feature, required=False))

    def _parted(self, columns: dict[str, Any]) -> dict[str, Any]:
        """Sparse columns as two lists, as in records, if their size matches the schema."""
        found: dict[str, Any] = {}
        for name, column in columns.items():
            if not isinstance(column, SparseColumn):
                found[name] = column
                continue
            feature = self._declared.features.get(name) if self._declared is not None else None
            if feature is None or feature.encoding != "sparse" or feature.shape != (column.size,):
                what = f"expected {feature.describe()}" if feature else "a schema must declare what is sparse"
                raise SchemaMismatch(f"{what}, got sparse of size {column.size}", at=name)
            if column.places.size and not (column.places.min() >= 0 and column.places.max() < column.size):
                raise SchemaMismatch(f"indices must be at least 0 and below {column.size}", at=name)
            found.update(part_sparse(name, column))
        return found

    def _write_as_columns(self, sample: dict[str, Any]) -> None:
        if sparse := {name: SparseColumn.of([row]) for name, row in sample.items() if isinstance(row, SparseRow)}:
            parts = {name: column[0] for name, column in self._parted(sparse).items()}
            sample = {**{name: value for name, value in sample.items() if name not in sparse}, **parts}
        for name in sample:
            if name not in self._features:
                raise MissingName("feature", name, self._features, where=self._at(name))
        stored = []
        for name, value in sample.items():
            try:
                if value is None:
                    help = ["Leave the feature out of the sample instead."]
                    raise SchemaMismatch("None cannot be stored", at=name, help=help)
                stored.append(self._store(name, column_of([value], self._features[name], name=name)))
            except SchemaMismatch as error:
                place = error.at.removeprefix(name).removeprefix("[0]")
                raise SchemaMismatch(error.what, at=self._at(name) + place, help=error.help) from None
        self._check_complete(sample)
        self._write_stored(stored, 1)

    def _write_stored(self, stored: list[Stored], rows: int) -> None:
        if rows == 0:
            return
        step = max(1, int(rows * _BATCH_BYTES / max(1, _stored_bytes(stored))))
        threads = available_cores()
        for begin in range(0, rows, step):
            end = min(begin + step, rows)
            cut = [column.cut(begin, end) for column in stored]
            encoded: Any = _native.encode(cut, end - begin, threads if end - begin >= _PARALLEL_ROWS else 1)
            if isinstance(encoded, int):
                self.records += begin + encoded
                raise self._refused(_TOO_LARGE, stored[0].name, None, 0)
            for piece in encoded[0]:
                self._sink.write(piece)
        self.records += rows


def _with(feature: Feature, **changes: Any) -> Feature:
    import msgspec

    return msgspec.structs.replace(feature, **changes)


def _is_by_columns(feature: Feature) -> bool:
    return feature.sequence or feature.cast or feature.encoding in ("raw", "sparse")


def _stored_bytes(stored: list[Stored]) -> int:
    return sum(part.nbytes for column in stored for part in column if isinstance(part, np.ndarray))


def _as_known_type(value: Any, at: str) -> Any:
    """Convert a value to one that the core knows; raises if that is not possible."""
    if isinstance(value, int):
        raise SchemaMismatch(f"{value} does not fit int64", at=at)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        raise SchemaMismatch("the text holds characters that UTF-8 cannot encode", at=at)
    if isinstance(value, np.ndarray | np.generic):
        return _as_known_array(np.asarray(value), at)
    if isinstance(value, list | tuple):
        return _as_known_list(value, at)
    if hasattr(value, "__array__"):
        return _as_known_array(np.asarray(value), at)
    feature_of(value, name=at)
    raise SchemaMismatch(f"a value of type {type(value).__name__} cannot be stored", at=at)


def _as_known_list(value: list[Any] | tuple[Any, ...], at: str) -> Any:
    for place, item in enumerate(value):
        if item is None:
            raise SchemaMismatch("None cannot be stored", at=f"{at}[{place}]")
        if isinstance(item, int) and not -(2**63) <= item < 2**63:
            raise SchemaMismatch(f"{item} does not fit int64", at=f"{at}[{place}]")
    if any(isinstance(item, bytes | str) for item in value):
        raise SchemaMismatch("text and numbers are mixed in one list", at=at)
    try:
        return _as_known_array(np.asarray(value), at)
    except (ValueError, OverflowError):
        raise SchemaMismatch("lists of different lengths are not one array", at=at) from None


def _as_known_array(array: Any, at: str) -> Any:
    if array.dtype.kind in "SUO" and all(isinstance(item, bytes | str) for item in array.reshape(-1).tolist()):
        return array.tolist() if array.ndim else array.item()
    if array.dtype.kind == "f":
        return np.ascontiguousarray(array, np.float32 if array.dtype.itemsize <= 4 else np.float64)
    if array.dtype.kind in "iu":
        return np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    raise SchemaMismatch(f"values of dtype {array.dtype} cannot be stored", at=at)


def _type_of(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return str(value.dtype)
    if isinstance(value, list | tuple) and value:
        return f"a list of {type(value[0]).__name__}"
    return type(value).__name__


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a file that hold no intact record: [begin, end) of its inflated bytes."""

    begin: int
    end: int
    record: int  # number of the first record lost
    fault: Fault


class Repaired(msgspec.Struct, frozen=True, kw_only=True):
    """What was kept of one file, and what was lost."""

    path: str
    out: str
    kept: int
    lost: list[Lost]

    @property
    def bytes_lost(self) -> int:
        """How many bytes are in no intact record."""
        return sum(lost.end - lost.begin for lost in self.lost)


def repair(paths: AnyPath | Iterable[AnyPath], out: AnyPath) -> list[Repaired]:
    """Copy every intact record of the files to `out`: a file for a single file, otherwise a folder with one file each.

    Bad data is skipped exactly; after a bad header, reading resumes where both checksums match. Nothing is ever
    overwritten.
    """
    files = list_files(paths)
    out = as_path(out)
    into_folder = len(files) > 1 or out.is_dir()
    targets = [out / path.name if into_folder else out for path in files]
    for path, target in zip(files, targets, strict=True):
        if target.exists():
            raise FileProblem(target, "exists already", help=[f"Choose another place for what is kept of {path}."])
    if len(set(targets)) < len(targets):
        raise FileProblem(out, "two of the files have the same name and would become one")
    if into_folder:
        out.mkdir(parents=True, exist_ok=True)
    return [_repair_file(open_file(path), target) for path, target in zip(files, targets, strict=True)]


def _repair_file(file: RecordFile, target: Path) -> Repaired:
    faults: list[Skipped] = []
    kept = 0
    sink = Sink(target, file.compression)
    try:
        for chunk in map(Chunk.copied, file.chunks(on_fault=faults.append)):
            bad = {row: fault for row, fault, _ in _native.verify(chunk.memory, chunk.extents, 1)}
            for row, fault in bad.items():
                length = int(chunk.extents[row, 1]) + 16
                faults.append(Skipped(str(file.path), chunk.first + row, chunk.offset(row), length, Fault(fault)))
            _copy_intact(chunk, set(bad), sink)
            kept += len(chunk.extents) - len(bad)
        sink.close()
    except BaseException:
        sink.discard()
        raise
    return Repaired(path=str(file.path), out=str(target), kept=kept, lost=_joined(faults))


def _copy_intact(chunk: Chunk, bad: set[int], sink: Sink) -> None:
    """Records follow each other, so everything between two bad ones is one piece."""
    memory = memoryview(chunk.memory)
    start = int(chunk.extents[0, 0])
    for row in (*sorted(bad), None):
        end = int(chunk.extents[-1].sum()) + 16 if row is None else int(chunk.extents[row, 0])
        if end > start:
            sink.write(memory[start:end])
        if row is not None:
            start = end + int(chunk.extents[row, 1]) + 16


def _joined(faults: list[Skipped]) -> list[Lost]:
    lost: list[Lost] = []
    for fault in sorted(faults, key=lambda fault: fault.offset):
        end = fault.offset + fault.length
        if lost and lost[-1].end == fault.offset and lost[-1].fault == fault.fault:
            lost[-1] = msgspec.structs.replace(lost[-1], end=end)
        else:
            lost.append(Lost(begin=fault.offset, end=end, record=fault.record, fault=fault.fault))
    return lost
