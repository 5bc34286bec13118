"""Columns in memory: arrays where all rows have one shape, the classes here where they do not; and as Arrow tables."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias, cast, overload

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.errors import SchemaMismatch, missing_package
from bushel.parallel import map_in_threads
from bushel.storage import local_copy, new_folder, write_array, write_whole

ALIGNMENT = 64
_NO_POOL = _native.Pool(0)

Ints: TypeAlias = NDArray[np.int64]
Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class BytesColumn:
    """One bytes value per row: row i is `data[offsets[i]:offsets[i + 1]]`."""

    offsets: Ints
    data: NDArray[np.uint8]

    @classmethod
    def of(cls, values: Sequence[bytes | str]) -> BytesColumn:
        """Make a column of Python values; text becomes UTF-8."""
        encoded = [value.encode() if isinstance(value, str) else bytes(value) for value in values]
        return cls(splits_of([len(value) for value in encoded]), np.frombuffer(b"".join(encoded), np.uint8))

    def __repr__(self) -> str:
        return f"BytesColumn({describe_column(self)})"

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[bytes]:
        memory = np.ascontiguousarray(self.data).data
        return (bytes(memory[begin:end]) for begin, end in pairwise(self.offsets.tolist()))

    @overload
    def __getitem__(self, row: int) -> bytes: ...
    @overload
    def __getitem__(self, row: slice | Array) -> BytesColumn: ...
    def __getitem__(self, row: int | slice | Array) -> bytes | BytesColumn:
        if isinstance(row, slice | np.ndarray):
            return self.take(np.arange(len(self))[row])
        row = _in_bounds(row, len(self))
        return self.data[self.offsets[row] : self.offsets[row + 1]].tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BytesColumn) and self.to_list() == other.to_list()

    __hash__ = None  # type: ignore[assignment]

    @property
    def lengths(self) -> Ints:
        """How many bytes each row has."""
        return np.diff(self.offsets)

    def take(self, rows: Array) -> BytesColumn:
        """Pick rows by number, in the order given."""
        if len(rows) > _STEP:
            return _take_many(self, rows)
        picked, offsets = _take_ranges(self.offsets, rows)
        return BytesColumn(offsets, self.data[picked])

    def to_list(self) -> list[bytes]:
        """All rows as Python bytes."""
        return list(self)

    def to_numpy(self) -> NDArray[np.object_]:
        """All rows as an array of Python bytes, as TensorFlow takes them."""
        out = np.empty(len(self), object)
        out[:] = self.to_list()
        return out


@dataclass(frozen=True, eq=False, repr=False)
class Ragged:
    """Rows of different lengths: row i is `values[row_splits[i]:row_splits[i + 1]]`.

    `present` is False for rows that lack the feature, as opposed to an empty list; it is None if no row lacks it.
    """

    values: Column
    row_splits: Ints
    present: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, rows: Sequence[Any], dtype: Any = None) -> Ragged:
        """Make a column of sequences."""
        splits = splits_of([len(row) for row in rows])
        flat = [value for row in rows for value in row]
        if any(isinstance(value, bytes | str) for value in flat[:1]):
            return cls(BytesColumn.of(flat), splits)
        return cls(np.asarray(flat, dtype), splits)

    def __repr__(self) -> str:
        return f"Ragged({describe_column(self)})"

    def __len__(self) -> int:
        return len(self.row_splits) - 1

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, row: int | slice | Array) -> Any:
        if isinstance(row, slice | np.ndarray):
            return self.take(np.arange(len(self))[row])
        row = _in_bounds(row, len(self))
        return self.values[int(self.row_splits[row]) : int(self.row_splits[row + 1])]

    @property
    def lengths(self) -> Ints:
        """How many values each row has."""
        return np.diff(self.row_splits)

    def take(self, rows: Array) -> Ragged:
        """Pick rows by number, in the order given."""
        picked, splits = _take_ranges(self.row_splits, rows)
        present = None if self.present is None else self.present[rows]
        return Ragged(take(self.values, picked), splits, present)

    def to_list(self) -> list[Any]:
        """All rows as Python lists; rows that lack the feature as None."""
        rows = [row.tolist() if isinstance(row, np.ndarray) else row.to_list() for row in self]
        if self.present is None:
            return rows
        return [row if there else None for row, there in zip(rows, self.present, strict=True)]

    def to_padded(self, length: int | None = None, *, fill: Any = 0) -> tuple[Array, NDArray[np.bool_]]:
        """Rows cut or filled up to one length (default: the longest), and a mask of what is real."""
        if not isinstance(self.values, np.ndarray):
            raise TypeError("only numbers can be padded")
        lengths = self.lengths
        if length is None:
            length = int(lengths.max(initial=0))
        mask = np.arange(length) < lengths[:, None]
        out = np.full((len(self), length, *self.values.shape[1:]), fill, self.values.dtype)
        picked, _ = _take_ranges(self.row_splits, np.arange(len(self)), np.minimum(lengths, length))
        out[mask] = self.values[picked]
        return out, mask


@dataclass(frozen=True, eq=False)
class SparseRow:
    """One row of `size` values, mostly zero: `values` at `places`, which ascend."""

    places: Ints
    values: Array
    size: int

    def __len__(self) -> int:
        return self.size

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SparseRow)
            and self.size == other.size
            and np.array_equal(self.places, other.places)
            and np.array_equal(self.values, other.values)
        )

    __hash__ = None  # type: ignore[assignment]

    def to_dense(self) -> Array:
        """The dense equivalent, with all zeros."""
        out = np.zeros(self.size, self.values.dtype)
        out[self.places] = self.values
        return out


@dataclass(frozen=True, eq=False, repr=False)
class SparseColumn:
    """Rows of `size` values, mostly zero.

    Row i has `values[row_splits[i]:row_splits[i + 1]]` at the `places` there, which ascend. `indices` and `shape` are
    what `tf.SparseTensor` and SciPy's COO have.
    """

    places: Ints
    values: Array
    row_splits: Ints
    size: int

    @classmethod
    def of(cls, rows: Sequence[SparseRow]) -> SparseColumn:
        """Make a column of rows of one size."""
        splits = splits_of([len(row.places) for row in rows])
        places, values = (np.concatenate(parts) for parts in ([r.places for r in rows], [r.values for r in rows]))
        return cls(places, values, splits, rows[0].size)

    def __repr__(self) -> str:
        return f"SparseColumn({describe_column(self)})"

    def __len__(self) -> int:
        return len(self.row_splits) - 1

    def __iter__(self) -> Iterator[SparseRow]:
        return (self[i] for i in range(len(self)))

    @overload
    def __getitem__(self, row: int) -> SparseRow: ...
    @overload
    def __getitem__(self, row: slice | Array) -> SparseColumn: ...
    def __getitem__(self, row: int | slice | Array) -> SparseRow | SparseColumn:
        if isinstance(row, slice | np.ndarray):
            return self.take(np.arange(len(self))[row])
        row = _in_bounds(row, len(self))
        own = slice(int(self.row_splits[row]), int(self.row_splits[row + 1]))
        return SparseRow(self.places[own], self.values[own], self.size)

    @property
    def indices(self) -> Ints:
        """Row and place of every value."""
        return np.stack([np.repeat(np.arange(len(self)), np.diff(self.row_splits)), self.places], axis=1)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the dense array that this stands for."""
        return len(self), self.size

    def take(self, rows: Array) -> SparseColumn:
        """Pick rows by number, in the order given."""
        picked, splits = _take_ranges(self.row_splits, rows)
        return SparseColumn(self.places[picked], self.values[picked], splits, self.size)

    def to_dense(self) -> Array:
        """The dense equivalent, with all zeros."""
        out = np.zeros(self.shape, self.values.dtype)
        out[self.indices[:, 0], self.places] = self.values
        return out


Column: TypeAlias = Array | Ragged | BytesColumn  # and SparseColumn, after transforms and in batches
AnyColumn: TypeAlias = Column | SparseColumn


def part_sparse(name: str, column: SparseColumn) -> dict[str, Column]:
    """A sparse column as the two lists that records hold."""
    return {
        f"{name}/indices": Ragged(column.places, column.row_splits),
        f"{name}/values": Ragged(column.values, column.row_splits),
    }


def join_sparse(name: str, places: Column, values: Column, size: int) -> SparseColumn:
    """The two lists that records hold as one column; a record that lacks both has only zeros."""
    one, other = as_ragged(places), as_ragged(values)
    if not isinstance(one.values, np.ndarray) or not isinstance(other.values, np.ndarray):
        raise SchemaMismatch("indices and values must be numbers", at=name)
    if not np.array_equal(one.row_splits, other.row_splits):
        row = int(np.argmax(one.lengths != other.lengths))
        raise SchemaMismatch("a record must have as many indices as values", at=f"record {row}/{name}")
    numbers, weights = one.values.astype(np.int64, copy=False), other.values
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < size):
        bad = int(np.argmax((numbers < 0) | (numbers >= size)))
        row = int(np.searchsorted(one.row_splits, bad, "right")) - 1
        raise SchemaMismatch(f"indices must be at least 0 and below {size}", at=f"record {row}/{name}/indices")
    rows = np.repeat(np.arange(len(one)), one.lengths)
    steps = np.diff(numbers)
    if not ((steps > 0) | (np.diff(rows) > 0)).all():
        order = np.lexsort((numbers, rows))
        numbers, weights = numbers[order], weights[order]
        if (same := (np.diff(numbers) == 0) & (np.diff(rows) == 0)).any():
            row = int(rows[int(np.argmax(same))])
            raise SchemaMismatch("a record must not have an index twice", at=f"record {row}/{name}/indices")
    return SparseColumn(numbers, weights, one.row_splits, size)


def describe_column(column: Any) -> str:
    """What a column is, in a few words: float32 [64, 224, 224, 3], 64 rows of bytes."""
    if isinstance(column, np.ndarray):
        return f"{column.dtype} {list(column.shape)}"
    if isinstance(column, BytesColumn):
        return f"{len(column):,} rows of bytes"
    if isinstance(column, Ragged):
        kind = column.values.dtype if isinstance(column.values, np.ndarray) else "bytes"
        return f"{len(column):,} rows of {kind}, of different lengths"
    if isinstance(column, SparseColumn):
        return f"{column.values.dtype} {list(column.shape)}, sparse: {len(column.values):,} values"
    return type(column).__name__


def take(column: Column, rows: Array) -> Column:
    """Pick rows of any column by number."""
    return column[rows] if isinstance(column, np.ndarray) else column.take(rows)


def cut(column: Any, begin: int, end: int) -> Any:
    """The rows [begin, end) of any column, without a copy of their values."""
    if isinstance(column, np.ndarray):
        return column[begin:end]
    if isinstance(column, BytesColumn):
        offsets, first, last = _cut_splits(column.offsets, begin, end)
        return BytesColumn(offsets, column.data[first:last])
    splits, first, last = _cut_splits(column.row_splits, begin, end)
    if isinstance(column, SparseColumn):
        return SparseColumn(column.places[first:last], column.values[first:last], splits, column.size)
    present = None if column.present is None else column.present[begin:end]
    return Ragged(cut(column.values, first, last), splits, present)


def _cut_splits(splits: Ints, begin: int, end: int) -> tuple[Ints, int, int]:
    # Not NumPy, which lets go of the GIL for a subtraction, and then waits for it again.
    return cast("tuple[Ints, int, int]", _native.cut_splits(splits, begin, end))


def byte_size(column: Any) -> int:
    """How many bytes a column takes in memory."""
    if isinstance(column, BytesColumn):
        return int(column.data.nbytes + column.offsets.nbytes)
    if isinstance(column, Ragged):
        return byte_size(column.values) + int(column.row_splits.nbytes)
    if isinstance(column, SparseColumn):
        return int(column.places.nbytes + column.values.nbytes + column.row_splits.nbytes)
    return int(column.nbytes)


def concatenate(columns: Sequence[Column]) -> Column:
    """Join columns end to end. Dense ones of different widths become ragged."""
    if len(columns) == 1:
        return columns[0]
    if all(isinstance(column, BytesColumn) for column in columns):
        return _concatenate_bytes(columns)
    if all(isinstance(column, SparseColumn) for column in columns):
        return _concatenate_sparse(columns)  # type: ignore[return-value]
    if all(isinstance(column, np.ndarray) for column in columns):
        arrays: list[Array] = list(columns)  # type: ignore[arg-type]
        if len({array.shape[1:] for array in arrays}) == 1:
            return np.concatenate(arrays)
    return _concatenate_ragged([as_ragged(column) for column in columns])


def as_ragged(column: Column) -> Ragged:
    """Any column as a ragged one: each row of a dense column, or of bytes, is a list."""
    if isinstance(column, Ragged):
        return column
    if isinstance(column, BytesColumn) or column.ndim == 1:
        return Ragged(column, np.arange(len(column) + 1))
    rows, width = column.shape[:2]
    return Ragged(column.reshape(rows * width, *column.shape[2:]), np.arange(rows + 1) * width)


def with_missing(filled: Column, present: NDArray[np.bool_]) -> Ragged:
    """Expand a column of the rows that are present to all rows; the others lack the feature."""
    ragged = as_ragged(filled)
    lengths = np.zeros(len(present), np.int64)
    lengths[present] = ragged.lengths
    if ragged.present is not None:
        present = present.copy()
        present[present] = ragged.present
    return Ragged(ragged.values, splits_of(lengths), present)


def splits_of(lengths: Sequence[int] | Array) -> Ints:
    """Where rows of these lengths begin and end, one after the other."""
    splits = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=splits[1:])
    return splits


def as_dense(column: Column) -> Column:
    """A ragged column as a dense one, if every row has the same number of values."""
    if not isinstance(column, Ragged) or not len(column):
        return column
    if column.present is not None:
        if not column.present.all():
            return column
        column = Ragged(column.values, column.row_splits)
    lengths = column.lengths
    if isinstance(column.values, Ragged) or (lengths != lengths[0]).any():
        return column
    if lengths[0] == 1:
        return column.values
    if isinstance(column.values, np.ndarray) and column.values.ndim == 1:
        return column.values.reshape(len(column), int(lengths[0]))
    return column


def _concatenate_bytes(columns: Sequence[Any]) -> BytesColumn:
    return BytesColumn(_join_splits([column.offsets for column in columns]), np.concatenate([c.data for c in columns]))


def _concatenate_sparse(columns: Sequence[Any]) -> SparseColumn:
    places, values = (np.concatenate([getattr(column, name) for column in columns]) for name in ("places", "values"))
    return SparseColumn(places, values, _join_splits([column.row_splits for column in columns]), columns[0].size)


def _concatenate_ragged(columns: Sequence[Ragged]) -> Ragged:
    splits = _join_splits([column.row_splits for column in columns])
    present = None
    if any(column.present is not None for column in columns):
        present = np.concatenate([np.ones(len(c), bool) if c.present is None else c.present for c in columns])
    filled = [column.values for column in columns if len(column.values)]
    return Ragged(concatenate(filled or [columns[0].values]), splits, present)


def _join_splits(parts: Sequence[Ints]) -> Ints:
    ends = np.cumsum([0, *(int(part[-1]) for part in parts)])
    return np.concatenate([[0], *(part[1:] + start for part, start in zip(parts, ends[:-1], strict=True))])


def _take_ranges(splits: Ints, rows: Array, lengths: Ints | None = None) -> tuple[Ints, Ints]:
    """Places of all values of the rows, one after the other, and the splits of the result."""
    starts = splits[:-1][rows]
    if lengths is None:
        lengths = splits[1:][rows] - starts
    out = splits_of(lengths)
    return np.repeat(starts - out[:-1], lengths) + np.arange(out[-1]), out


def count_of(shape: Sequence[int | None]) -> int:
    """How many values a shape holds; a size that varies counts as one."""
    return math.prod(1 if size is None else size for size in shape)


def aligned_empty(shape: tuple[int, ...], dtype: Any, pool: _native.Pool = _NO_POOL) -> Array:
    """An array that begins at a multiple of 64 bytes, so that frameworks take it without a copy."""
    dtype = np.dtype(dtype)
    memory = cast("NDArray[np.uint8]", pool.empty(math.prod(shape) * dtype.itemsize))
    return cast("Array", memory.view(dtype).reshape(shape))


def aligned(array: Array) -> Array:
    """The array itself if it is aligned and in C order, otherwise a copy that is."""
    if _native.is_aligned(array) or (array.ctypes.data % ALIGNMENT == 0 and array.flags.c_contiguous):
        return array
    out = aligned_empty(array.shape, array.dtype)
    out[...] = array
    return out


def _in_bounds(row: int, rows: int) -> int:
    if not -rows <= row < rows:
        raise IndexError(f"row must be below {rows}, got {row}")
    return int(row) % rows


_LARGE = 96 << 20  # bytes: what lies in a file rather than in memory
_STEP = 1 << 18  # rows of a large array that are worked on at a time


def roomy(rows: int, dtype: Any) -> Array:
    """An array with nothing in it yet. A large one lies in a temporary file: long plans must not need much memory."""
    size, reserve = rows * np.dtype(dtype).itemsize, getattr(os, "posix_fallocate", None)
    if size < _LARGE or reserve is None:
        return np.empty(rows, dtype)
    try:
        with tempfile.TemporaryFile(prefix="bushel-") as file:
            reserve(file.fileno(), 0, size)  # a disk that is full later would be a bus error
            return np.memmap(file, dtype, "r+", shape=(rows,)).view(np.ndarray)
    except OSError:
        return np.empty(rows, dtype)


class Pile:
    """Arrays of one kind, one after the other: small ones in memory, many of them together in temporary files."""

    def __init__(self, dtype: Any) -> None:
        self._dtype = np.dtype(dtype)
        self._settled: list[Array] = []
        self._loose: list[Array] = []
        self._loose_rows = self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def add(self, part: Array) -> None:
        """Put an array at the end."""
        self._loose.append(np.asarray(part, self._dtype))
        self._rows += len(part)
        self._loose_rows += len(part)
        if self._loose_rows * self._dtype.itemsize >= _LARGE:
            self._settled.append(joined(self._loose, self._dtype))
            self._loose, self._loose_rows = [], 0

    def extend(self, other: Pile) -> None:
        """Put all arrays of another pile at the end."""
        for part in (*other._settled, *other._loose):
            self.add(part)

    def whole(self) -> Array:
        """All of it as one array."""
        whole = joined([*self._settled, *self._loose], self._dtype)
        self._settled, self._loose, self._loose_rows = [whole], [], 0
        return whole


def joined(parts: Sequence[Array], dtype: Any) -> Array:
    """Arrays of one kind, one after the other, in a roomy one; a single array is itself."""
    if len(parts) == 1:
        return parts[0]
    ends = splits_of([len(part) for part in parts]).tolist()
    whole = roomy(ends[-1], dtype)

    def put(number: int) -> None:
        whole[ends[number] : ends[number + 1]] = parts[number]

    _do_all(put, range(len(parts)), is_large=whole.nbytes > _STEP)
    return whole


def steps(rows: int) -> Iterator[slice]:
    """Some rows of a large array at a time."""
    return (slice(at, min(at + _STEP, rows)) for at in range(0, rows, _STEP))


def in_steps(rows: int, work: Callable[[slice], object]) -> None:
    """Do the work on some rows of a large array at a time, in threads; worth it if it releases the GIL."""
    _do_all(work, steps(rows), is_large=rows > _STEP)


def _do_all(work: Callable[[Any], object], items: Iterable[Any], *, is_large: bool) -> None:
    deque(map_in_threads(work, items) if is_large else map(work, items), maxlen=0)


def _take_many(column: BytesColumn, rows: Array) -> BytesColumn:
    """Some rows at a time: each byte that is picked takes eight while it is."""
    ends, data = Pile(np.int64), Pile(np.uint8)
    ends.add(np.zeros(1, np.int64))
    for some in steps(len(rows)):
        picked = column.take(rows[some])
        ends.add(picked.offsets[1:] + len(data))
        data.add(picked.data)
    return BytesColumn(ends.whole(), data.whole())


_SPARSE = ("places", "values", "row_splits")


def is_spooled(spooled: Path | None, folder: Path | None) -> bool:
    """Whether columns are already written, in the folder where they must be."""
    return spooled is not None and (spooled / "columns.json").exists() and folder in (None, spooled.parent)


def spool_columns(columns: dict[str, Column], within: Path | None) -> Path:
    """Write columns into a new folder `within` another, or within a temporary one; it is removed with this process."""
    folder = new_folder(within)
    write_columns(folder, columns)
    return folder


def write_columns(folder: Path, columns: dict[str, Column]) -> None:
    """Write columns into a folder, for `load_columns`."""
    folder.mkdir(exist_ok=True)
    layout = [_write(folder / str(number), name, column) for number, (name, column) in enumerate(columns.items())]
    (folder / "columns.json").write_text(json.dumps(layout))


def _write(stem: Path, name: str, column: Any) -> dict[str, Any]:
    if isinstance(column, BytesColumn):
        _save(stem, "offsets", column.offsets)
        _save(stem, "data", column.data)
        return {"name": name, "kind": "bytes"}
    if isinstance(column, Ragged):
        _save(stem, "splits", column.row_splits)
        if column.present is not None:
            _save(stem, "present", column.present)
        inner = _write(stem.with_name(f"{stem.name}.values"), name, column.values)
        return {"name": name, "kind": "ragged", "values": inner, "present": column.present is not None}
    if isinstance(column, SparseColumn):
        for part in _SPARSE:
            _save(stem, part, getattr(column, part))
        return {"name": name, "kind": "sparse", "size": column.size}
    _save(stem, "array", column)
    return {"name": name, "kind": "array"}


def _save(stem: Path, part: str, array: NDArray[Any]) -> None:
    with write_whole(stem.with_name(f"{stem.name}.{part}.npy"), sync=False) as file:
        write_array(file, array)


def load_columns(folder: Path) -> dict[str, Column]:
    """Map what `spool_columns` wrote."""
    layout = json.loads((folder / "columns.json").read_text())
    return {column["name"]: _read(folder / str(number), column) for number, column in enumerate(layout)}


def _read(stem: Path, layout: dict[str, Any]) -> Any:
    if layout["kind"] == "bytes":
        return BytesColumn(_map(stem, "offsets"), _map(stem, "data"))
    if layout["kind"] == "ragged":
        present = _map(stem, "present") if layout["present"] else None
        return Ragged(_read(stem.with_name(f"{stem.name}.values"), layout["values"]), _map(stem, "splits"), present)
    if layout["kind"] == "sparse":
        places, values, splits = (_map(stem, part) for part in _SPARSE)
        return SparseColumn(places, values, splits, layout["size"])
    return _map(stem, "array")


def _map(stem: Path, part: str) -> NDArray[Any]:
    path = local_copy(stem.with_name(f"{stem.name}.{part}.npy"))
    array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return np.asarray(array)


def need_arrow(purpose: str) -> Any:
    """The module `pyarrow`, or an error that says how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise missing_package("pyarrow", extra="tables", purpose=purpose) from None
    return pyarrow
