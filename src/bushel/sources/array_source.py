"""Arrays: NumPy files, which are mapped, and arrays in memory."""

from __future__ import annotations

import math
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import IO, Annotated, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import (
    BytesColumn,
    Column,
    Ragged,
    SparseColumn,
    is_spooled,
    join_sparse,
    load_columns,
    spool_columns,
    take,
)
from bushel.data.samples import feature_of_column
from bushel.data.schema import Feature, Schema
from bushel.errors import FileProblem, MissingName, SchemaMismatch, missing_package, readable_size
from bushel.sources.in_memory import (
    Unread,
    are_splits,
    column_or_mixed,
    from_pairs,
    is_sparse,
    join_splits,
    nullable_column,
    number_keys,
    read_columns,
    rows_that_fit,
    typed,
)
from bushel.sources.protocol import Block, Listing, Refused, Source, fingerprint_of, fingerprint_of_arrays
from bushel.sources.tables.arrow import BadRows, feature_of, flatten, is_date, to_column
from bushel.sources.tables.readings import MissingValues
from bushel.storage import as_path, local_copy, open_inside, open_to_read, why_not_inside

__all__ = ["ArraySource", "arrays"]


_BLOCK_BYTES = 8 << 20
_INT64_MAX = np.iinfo(np.int64).max


def arrays(
    data: Any,
    *,
    columns: Annotated[Sequence[str] | None, "Arrays to keep (default: all)"] = None,
    rename: Annotated[Mapping[str, str] | None, "New names of arrays, by their old names"] = None,
    types: Annotated[Mapping[str, str] | None, 'Types of arrays, such as image = "uint8"'] = None,
    key: Annotated[str | None, "Array that identifies a sample (default: the row number)"] = None,
    missing_values: MissingValues = None,
) -> ArraySource:
    """Take samples from arrays, one per row: NumPy files, arrays by name, a DataFrame, scikit-learn's data.

    `data` is a `.npy` or `.npz` file (mapped where that can be done), a dict of name to array or `.npy` file, a pair
    `(x, y)`, a pandas DataFrame, or what scikit-learn's `load_...` return. SciPy's sparse matrices, and files of
    its `save_npz`, stay sparse; as a label, one is made dense. `types` asks for other types than int64 and
    float32: `{"image": "uint8"}` stores raw bytes. `key` names a column of unique keys; without it, rows are numbered.
    `missing_values` are texts and numbers that mean missing, in every column.

    >>> source = arrays({"x": np.zeros((3, 2)), "label": [0, 1, 0]})
    >>> source.schema()["x"].describe()
    'float32[2]'
    """
    rename = rename or {}
    given = _named(data if (pairs := from_pairs(data)) is None else pairs)
    apart = join_splits(_in_memory(given)) if are_splits(given) else None
    given = apart or given
    chosen = given if columns is None else _chosen(given, columns)
    marks = None if missing_values is None else tuple(missing_values)
    chosen, dates, notes = read_columns(chosen, marks, {**(types or {}), **({key: "str"} if key else {})})
    renamed = {rename.get(name, name): values for name, values in chosen.items()}
    if isinstance(label := renamed.get("label"), SparseColumn):
        renamed["label"] = label.to_dense()
    source = ArraySource(renamed, types=(_pixels_of(renamed) if apart else {}) | dict(types or {}), key=key)
    source.split = "split" if apart else None
    source.notes, source.dates = notes, {rename.get(name, name) for name in dates}
    if isinstance(data, str | PathLike):
        source.opened = {"kind": "arrays", "path": str(data)} | _options(columns, rename, types, key, marks)
    source.check()
    return source


def _options(columns: Any, rename: Any, types: Any, key: Any, marks: Any) -> dict[str, Any]:
    options = {"columns": columns and list(columns), "rename": rename and dict(rename), "types": types and dict(types)}
    stated = {name: value for name, value in {**options, "key": key}.items() if value}
    return stated if marks is None else {**stated, "missing_values": list(marks)}


def _pixels_of(columns: Mapping[str, Any]) -> dict[str, str]:
    """Types that keep pixels as bytes."""
    is_pixels = {name: isinstance(one, np.ndarray) and one.dtype == np.uint8 for name, one in columns.items()}
    return {name: "uint8" for name, one in columns.items() if is_pixels[name] and one.ndim > 2}


def _in_memory(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: nullable_column(values.load(), name=name) if isinstance(values, _Place) else values
        for name, values in given.items()
    }


def _chosen(given: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    for name in columns:
        if name not in given:
            raise MissingName("column", name, given, where="arrays")
    return {name: given[name] for name in columns}


def _named(data: Any) -> dict[str, Any]:
    """The given data as values by name: a column, an array in a file, or something to convert to a column."""
    if isinstance(data, str | PathLike):
        return _of_file(as_path(data))
    if isinstance(data, Mapping) and "data" in data and "target" in data:
        return _of_bunch(data)
    if isinstance(data, Mapping):
        named = {str(name): _of_value(values, str(name)) for name, values in data.items()}
        if not named:
            raise ValueError("data must hold at least one array, got none")
        return named
    if is_arrow(data):
        return _of_arrow(data)
    if hasattr(data, "columns") and hasattr(data, "dtypes"):
        return {str(name): column_or_mixed(data[name], name=str(name)) for name in data.columns}
    if isinstance(data, tuple) and len(data) == 2:
        return {"x": nullable_column(data[0], name="x"), "label": nullable_column(data[1], name="label")}
    if is_sparse(data):
        return {"x": nullable_column(data, name="x")}
    if isinstance(data, np.ndarray):
        return _of_structured(data) if data.dtype.names else {"x": nullable_column(data, name="x")}
    raise ValueError(
        f"data must be a path, a dict of arrays, a pair (x, y), a DataFrame or an array; got {type(data).__name__}"
    )


def is_arrow(data: Any) -> bool:
    """Whether it is an Arrow table or a Polars frame."""
    return hasattr(data, "to_arrow") or (hasattr(data, "column_names") and hasattr(data, "combine_chunks"))


def _of_arrow(data: Any) -> dict[str, Any]:
    table = data.to_arrow() if hasattr(data, "to_arrow") else data
    found: dict[str, Any] = {}
    for name, array in flatten(table).items():
        bad: BadRows = {}
        feature_of(array.type, name=name, required=False)
        if is_date(array.type):
            found[name] = Unread(array)
            continue
        found[name] = to_column(array, bad)
        for row, reason in bad.items():
            raise SchemaMismatch(reason, at=f"{name}[{row}]")
    return found


def _of_structured(data: NDArray[Any]) -> dict[str, Any]:
    return {name: nullable_column(np.ascontiguousarray(data[name]), name=name) for name in data.dtype.names or ()}


def _of_value(values: Any, name: str) -> Any:
    if not isinstance(values, str | PathLike):
        return column_or_mixed(values, name=name)
    places = _of_file(as_path(values))
    if len(places) != 1:
        raise ValueError(f"{name} must be one array, got the {len(places)} of {values}")
    return next(iter(places.values()))


def _of_bunch(bunch: Mapping[str, Any]) -> dict[str, Any]:
    """A bunch of scikit-learn: `data` is a matrix, a frame or a list of texts, and `target` the label."""
    data, target = bunch["data"], bunch["target"]
    if hasattr(data, "columns") and hasattr(data, "dtypes"):
        named = {str(name): nullable_column(data[name], name=str(name)) for name in data.columns}
    elif isinstance(data, list) and data and isinstance(data[0], str | bytes):
        named = {"text": nullable_column(data, name="text")}
    else:
        named = {"x": nullable_column(data, name="x")}
    return named | {"label": nullable_column(_named_classes(bunch, target), name="label")}


def _named_classes(bunch: Mapping[str, Any], target: Any) -> Any:
    """Labels by name, if a bunch names its classes."""
    names, codes = bunch.get("target_names"), np.asarray(target)
    if names is None or codes.dtype.kind not in "iu" or codes.ndim != 1 or not len(codes):
        return target
    is_named = len(names) > codes.max() and codes.min() >= 0 and len(names) > 1
    return np.asarray([str(name) for name in names])[codes] if is_named else target


@dataclass(frozen=True)
class _Place:
    """An array in a file."""

    path: str
    member: str | None = None  # of an .npz

    def load(self) -> NDArray[Any]:
        """Map the array, or read it if it is compressed."""
        if self.member is None:
            return _load_npy(local_copy(as_path(self.path)))
        return _load_member(local_copy(as_path(self.path)), self.member)


@dataclass(frozen=True)
class _SparsePlace(_Place):
    """A sparse matrix in a file written by SciPy's `save_npz`."""

    def load(self) -> Any:
        """Read the matrix, which must be CSR, that is, stored row by row."""
        path = local_copy(as_path(self.path))
        form = bytes(_load_member(path, "format.npy").tobytes()).replace(b"\0", b"").decode(errors="replace")
        if form != "csr":
            help = ["Save it row by row: scipy.sparse.save_npz(path, x.tocsr())"]
            raise FileProblem(path, f"holds a sparse matrix in the form {form}, and CSR is read", help=help)
        shape, data, places, splits = (
            _load_member(path, f"{part}.npy") for part in ("shape", "data", "indices", "indptr")
        )
        is_whole = shape.shape == (2,) and data.ndim == 1 and places.shape == data.shape and splits.ndim == 1
        is_whole = is_whole and len(splits) == shape[0] + 1 and splits[0] == 0 and splits[-1] == len(data)
        if not is_whole or (np.diff(splits) < 0).any() or not {places.dtype.kind, splits.dtype.kind} <= set("iu"):
            raise FileProblem(path, "holds a sparse matrix whose parts do not fit together")
        rows = splits.astype(np.int64)
        return join_sparse(Path(self.path).stem, Ragged(places, rows), Ragged(data, rows), int(shape[1]))


@dataclass(frozen=True)
class _Hdf5Place(_Place):
    """A dataset in an HDF5 file."""

    def load(self) -> Any:
        """Map the dataset if it is contiguous, otherwise read it."""
        path = local_copy(as_path(self.path))
        with _open_hdf5(path) as file:
            data = _dataset_in(file, self.member or "", path)
            _refuse_outside(data, path)
            _refuse_claims(data, path)
            at = data.id.get_offset() if data.chunks is None and data.dtype.kind in "biuf" else None
            if at is not None and data.size:
                return np.asarray(np.memmap(path, data.dtype, "r", at, data.shape))
            if data.dtype.kind == "O":
                return _objects_of(data, path)
            if data.nbytes <= _HELD:
                return data[()]
            rows = max(1, _PIECE * len(data) // data.nbytes)
            pieces = (np.ascontiguousarray(data[at : at + rows]) for at in range(0, len(data), rows))
            return _unpacked(path, pieces, data.dtype, data.shape)


def _h5py() -> Any:
    try:
        import h5py
    except ImportError:
        raise missing_package("h5py", extra="hdf5", purpose="reading HDF5 files") from None
    return h5py


@contextmanager
def _open_hdf5(path: Path) -> Iterator[Any]:
    """An HDF5 file; what is wrong with it is said with its name."""
    try:
        with _h5py().File(path, "r") as file:
            yield file
    except (OSError, RuntimeError) as error:
        if isinstance(error, FileProblem):
            raise
        raise FileProblem(path, f"cannot be read as HDF5: {error}") from None


def _objects_of(data: Any, path: Path) -> list[Any]:
    """Texts, or lists of numbers that vary in length."""
    h5py = _h5py()
    if h5py.check_string_dtype(data.dtype) is not None:
        return [value if isinstance(value, str) else bytes(value).decode() for value in data[()]]
    if h5py.check_vlen_dtype(data.dtype) is not None:
        return list(data[()])
    raise FileProblem(path, f"{data.name[1:]!r} holds neither numbers nor texts: {data.dtype}")


_VIRTUAL = 4  # datasets that are made of others, one in the other
_DENSEST = 1100  # bytes that a byte of a compressed file may stand for: no codec of HDF5 does better


def _refuse_outside(data: Any, path: Path, depth: int = 0) -> None:
    """Refuse a dataset whose values are in other files, except for HDF5 files next to its own that hold theirs."""
    named = [name for name, _, _ in data.external or ()]
    for source in data.virtual_sources() if data.is_virtual else ():
        if source.file_name == "." and depth < _VIRTUAL:
            _refuse_outside(_dataset_in(data.file, source.dset_name, path), path, depth + 1)
        elif depth == _VIRTUAL or "%" in source.file_name or why_not_inside(path.parent, source.file_name):
            named.append(source.file_name)
        elif (path.parent / source.file_name).exists():  # values of one that is missing are zeros
            open_inside(path.parent, source.file_name).close()
            with _h5py().File(path.parent / source.file_name, "r") as file:
                _refuse_outside(_dataset_in(file, source.dset_name, path), path, depth + 1)
    if named:
        raise FileProblem(path, f"{data.name[1:]!r} takes its values from another file, {named[0]!r}")


def _dataset_in(file: Any, name: str, path: Path) -> Any:
    """A dataset by its name, which may lead through groups, but not through a link to another file."""
    h5py, above = _h5py(), file
    for part in name.strip("/").split("/"):
        link = above.get(part, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            raise FileProblem(path, f"{name!r} takes its values from another file, {link.filename!r}")
        if isinstance(link, h5py.SoftLink):
            raise FileProblem(path, f"{name!r} is a link to {link.path!r}", help=["Name what it leads to."])
        above = above[part]
    return above


def _refuse_claims(data: Any, path: Path) -> None:
    """Refuse a dataset that says it has far more values than the file can hold: reading it would not end."""
    held = path.stat().st_size if data.is_virtual else data.id.get_storage_size()
    for source in data.virtual_sources() if data.is_virtual else ():
        place = path.parent / source.file_name
        held += place.stat().st_size if source.file_name != "." and place.exists() else 0
    if data.nbytes > _HELD + _DENSEST * held:
        raise FileProblem(
            path, f"{data.name[1:]!r} says that it has {data.nbytes:,} bytes, and the file holds {held:,}"
        )


def _names_in_hdf5(path: Path) -> list[str]:
    """The datasets of a file that have rows, by path."""
    names: list[str] = []
    with _open_hdf5(local_copy(path)) as file:
        file.visititems(lambda name, item: names.append(name) if getattr(item, "shape", ()) else None)
    if not names:
        raise FileProblem(path, "holds no array")
    return names


def _of_file(path: Path) -> dict[str, Any]:
    with open_to_read(path) as file:
        head = file.read(8)
    if head[:6] == b"\x93NUMPY":
        return {path.stem: _Place(str(path))}
    if head[:4] == b"PK\x03\x04":
        names = [name for name in zipfile.ZipFile(local_copy(path)).namelist() if name.endswith(".npy")]
        if {"format.npy", "shape.npy", "data.npy"} <= set(names):
            return {path.stem: _SparsePlace(str(path))}
        if names:
            return {name.removesuffix(".npy"): _Place(str(path), name) for name in names}
    if head == b"\x89HDF\r\n\x1a\n":
        return {name: _Hdf5Place(str(path), name) for name in _names_in_hdf5(path)}
    raise FileProblem(path, "is neither an .npy, an .npz nor an HDF5 file")


_PICKLED = "holds pickled Python objects, which can run code when they are loaded"
_PICKLED_HELP = [
    "Save numbers or text: array.astype(float) or array.astype(str), then np.save(..., allow_pickle=False)."
]


def _load_npy(path: Path) -> NDArray[Any]:
    try:
        with open_to_read(path) as file:
            _array_header(file)
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except ValueError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> FileProblem:
    text = str(error)
    if "allow_pickle" in text or "Python objects" in text:
        return FileProblem(path, _PICKLED, help=_PICKLED_HELP)
    return FileProblem(path, f"cannot be read as an array: {text[:1].lower()}{text[1:]}")


def _load_member(path: Path, member: str) -> NDArray[Any]:
    try:
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo(member)
            if info.compress_type == zipfile.ZIP_STORED:
                return _map_member(path, info)
            if info.file_size > _HELD:
                with archive.open(info) as file:
                    shape, order, dtype = _array_header(file)
                    return _unpacked(path, iter(lambda: file.read(_PIECE), b""), dtype, shape, order)
        return np.load(path, allow_pickle=False)[member.removesuffix(".npy")]  # type: ignore[no-any-return]
    except (ValueError, zipfile.BadZipFile, EOFError) as error:
        raise _unreadable(path, error) from None


_HELD = 64 << 20  # bytes of a compressed array that are kept in memory; a larger one is unpacked to a temporary file
_PIECE = 16 << 20


def _unpacked(
    path: Path, pieces: Iterable[Any], dtype: np.dtype[Any], shape: tuple[int, ...], order: Literal["F", "C"] = "C"
) -> NDArray[Any]:
    """An array in a temporary file without a name, mapped: the system keeps in memory what it has room for."""
    left = math.prod(shape) * dtype.itemsize
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if left > free:  # which a file can claim without being large
        room = f"{tempfile.gettempdir()} has {readable_size(free)} free"
        help = ["Set TMPDIR to a folder with more room, or store the array uncompressed."]
        raise FileProblem(path, f"an array of it takes {readable_size(left)} unpacked, and {room}", help=help)
    with tempfile.TemporaryFile(prefix="bushel-") as file:
        for piece in pieces:
            left -= file.write(memoryview(piece).cast("B")[:left])
            if not left:  # a stream may have more than its header says
                break
        file.flush()
        return np.asarray(np.memmap(file, dtype, "r", 0, shape, order))


def _array_header(file: IO[bytes]) -> tuple[tuple[int, ...], Literal["F", "C"], np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read_header(file)
    if dtype.hasobject:
        raise ValueError("Python objects")
    if not dtype.itemsize and 0 not in shape:  # any number of them takes no room in the file
        raise ValueError(f"values of no size, of the shape {shape}")
    return shape, "F" if is_fortran else "C", dtype


def _map_member(path: Path, info: zipfile.ZipInfo) -> NDArray[Any]:
    """Map an array that is stored uncompressed in a zip archive."""
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        name_length = int.from_bytes(file.read(2), "little")
        extra_length = int.from_bytes(file.read(2), "little")
        file.seek(name_length + extra_length, 1)
        shape, order, dtype = _array_header(file)
        at = file.tell()
    if 0 in shape:
        return np.empty(shape, dtype, order)
    return np.asarray(np.memmap(path, dtype, "r", at, shape, order))


class ArraySource(Source):
    """Samples from columns that are in memory or mapped; reads at random, in one partition."""

    reads: Literal["random", "sequence"] = "random"
    split: str | None = None
    spooled: Path | None = None

    def __init__(self, given: dict[str, Any], *, types: Mapping[str, str], key: str | None) -> None:
        self.given = given
        self.types = dict(types)
        self.key = key
        self.opened: dict[str, Any] = {"kind": "arrays"}
        self.notes: dict[str, int] = {}  # what was decided about columns
        self.dates: set[str] = set()  # columns of microseconds since 1970

    @cached_property
    def columns(self) -> dict[str, Column]:
        """All columns; those in files are mapped when first needed."""
        return {
            name: nullable_column(values.load(), name=name) if isinstance(values, _Place) else values
            for name, values in self.given.items()
        }

    @cached_property
    def features(self) -> dict[str, Feature]:
        """The features by name."""
        found = {name: feature_of_column(self.columns[name], name=name) for name in self.columns if name != self.split}
        for name in self.dates & found.keys():
            found[name] = msgspec.structs.replace(found[name], meaning="date")
        for name, dtype in self.types.items():
            if name not in found:
                raise MissingName("column", name, found, where="types")
            if name not in self.dates and (found[name].dtype in ("str", "bytes")) != (dtype in ("str", "bytes")):
                raise SchemaMismatch(f"{found[name].dtype} cannot be taken as {dtype}", at=name)
        return typed(found, {name: dtype for name, dtype in self.types.items() if name not in self.dates})

    @property
    def rows(self) -> int:
        """How many samples there are."""
        return len(next(iter(self.columns.values())))

    def check(self) -> None:
        """Raise an error if the columns do not fit together."""
        counts = {name: len(column) for name, column in self.columns.items()}
        if len(set(counts.values())) > 1:
            said = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise SchemaMismatch(
                f"columns must have the same number of rows, got {said}",
                at="arrays",
                help=["Choose those that belong together: --columns A,B"],
            )
        if not self.rows:
            raise ValueError("data must hold at least one row, got none")
        if self.key is not None and self.key not in counts:
            raise MissingName("column", self.key, counts, where="key")
        assert self.features

    def partitions(self) -> int:
        """One."""
        return 1

    def schema(self) -> Schema:
        """Names and types of the columns."""
        return Schema(features=dict(self.features))

    def list(self, partition: int, columns: Sequence[str]) -> Listing:
        """Keys, and the requested columns."""
        assert partition == 0
        keys = number_keys(0, self.rows) if self.key is None else as_keys(self.columns[self.key], name=self.key)
        found = {name: self.columns[name] for name in columns if name in self.columns}
        return Listing(keys, found, counted=dict(self.notes))

    def read(self, partition: int, rows: NDArray[np.int64] | None) -> Iterator[Block]:
        """The requested rows, in that order."""
        assert partition == 0
        wanted = np.arange(self.rows) if rows is None else np.asarray(rows, np.int64)
        step = rows_that_fit(self.columns.values(), max(self.rows, 1), max_bytes=_BLOCK_BYTES)
        for start in range(0, len(wanted), step):
            yield self._block(wanted[start : start + step])

    def _block(self, rows: NDArray[np.int64]) -> Block:
        columns = {name: take(self.columns[name], rows) for name in self.features}
        refused: dict[int, str] = {}
        for name, column in columns.items():
            if isinstance(column, np.ndarray) and column.dtype == np.uint64 and self.features[name].dtype == "int64":
                over = (column > _INT64_MAX).reshape(len(column), -1).any(axis=1)
                refused |= {int(row): f"{name}: {column[row].max()} does not fit int64" for row in np.flatnonzero(over)}
        if not refused:
            return Block(rows, columns)
        kept = np.setdiff1d(np.arange(len(rows)), list(refused))
        left = [Refused(int(rows[row]), "schema", reason) for row, reason in sorted(refused.items())]
        return Block(rows[kept], {name: take(column, kept) for name, column in columns.items()}, left)

    def locate(self, partition: int, row: int) -> str:
        """The number of the row."""
        assert partition == 0
        files = {values.path for values in self.given.values() if isinstance(values, _Place)}
        return f"{files.pop()}: row {row}" if len(files) == 1 else f"row {row}"

    def fingerprint(self) -> str:
        """Sizes and times of files, and a digest of arrays in memory."""
        files = sorted({values.path for values in self.given.values() if isinstance(values, _Place)})
        loaded = {name: self.columns[name] for name, values in self.given.items() if not isinstance(values, _Place)}
        return fingerprint_of(files, {**self.describe(), "names": list(self.given)}, fingerprint_of_arrays(loaded))

    def describe(self) -> dict[str, Any]:
        """The path and options; a recipe cannot restore arrays in memory."""
        return self.opened

    def spool(self, folder: Path | None = None) -> None:
        """Write arrays in memory to files that other processes can map, in `folder` or in a temporary folder."""
        loaded = {name: values for name, values in self.given.items() if not isinstance(values, _Place)}
        if loaded and not is_spooled(self.spooled, folder):
            self.spooled = spool_columns(loaded, folder)

    def __getstate__(self) -> dict[str, Any]:
        self.spool()
        state = {name: value for name, value in self.__dict__.items() if name not in ("columns", "features", "given")}
        state["places"] = {name: values if isinstance(values, _Place) else None for name, values in self.given.items()}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        places = state.pop("places")
        self.__dict__.update(state)
        loaded = load_columns(state["spooled"]) if "spooled" in state else {}
        self.given = {name: loaded[name] if place is None else place for name, place in places.items()}


def as_keys(column: Column, *, name: str) -> BytesColumn:
    """A column of text or integers as keys."""
    if isinstance(column, BytesColumn):
        return column
    if isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in "iu":
        return BytesColumn.of([str(value) for value in column.tolist()])
    if isinstance(column, Ragged) and column.present is not None:
        row = int(np.argmin(column.present))
        raise SchemaMismatch("a key must not be missing", at=f"{name}[{row}]")
    raise SchemaMismatch("a key must be one text or integer a row", at=name)
