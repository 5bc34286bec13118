"""The index of one file: where each record is, and the few values that selection needs. FORMAT.md has its layout."""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from os import PathLike
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.columns import BytesColumn, Column, Ragged, concatenate, count_of
from bushel.errors import BushelError, CorruptRecord, FileProblem, FormatError, MissingName
from bushel.records.deflated import find_starts, valid_starts
from bushel.records.files import FOOTER, HEADER, RecordFile, Skipped, leave_out_empty, open_file
from bushel.records.manifest import record_files
from bushel.records.scan import to_column
from bushel.storage import (
    AnyPath,
    Status,
    as_path,
    load_bytes,
    local_copy,
    make_own_folder,
    open_to_read,
    read_head,
    read_past_cache,
    status_of,
    why_not_inside,
    write_whole,
)
from bushel.storage.file_kinds import SHARD_CODECS

MAGIC = b"BUSHELIX"
FORMAT = 3  # of an index with the starts of groups; others are of format 2
ALIGNMENT = 64
_PREFIX = struct.Struct("<8sII")  # magic, format, length of the JSON after it
_ENDS = 64  # bytes at each end of the file
_AT_A_TIME = 1 << 16  # records whose checksums are read together
_CRC = struct.Struct("<I")  # at the end, of all bytes before it
_DTYPES = ("<u8", "<u4", "<i8", "<i4", "<f8")
_FIXED = {"offset": "<u8", "length": "<u4", "key": "<u8"}


class StaleIndex(FileProblem):
    """An index whose file has changed since it was made."""


class Tie(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What ties an index to its file. The modification time of the index is set to that of the file."""

    size: int
    head_crc: int  # crc32c of the first 64 bytes of the file
    tail_crc: int  # and of the last 64
    digest: str = ""  # SHA-256 over the framing of all records; of the file, if it is compressed
    sha256: str = ""  # of the file, if its build recorded it
    etag: str = ""  # of an object, whose time may change
    mtime_ns: int = 0  # of the file, in format 1


class ObjectOrigin(msgspec.Struct, frozen=True):
    """How an object came about: the index is written after it, so that finding this means that both are complete."""

    build: str  # that made it
    outcome: msgspec.Raw  # of the task


class _ColumnHeader(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    dtype: str
    at: int  # offset in the index file
    hashed: bool = False  # values are XXH64 of bytes


class _Header(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    records: int
    file: Tie
    compression: str | None
    columns: list[_ColumnHeader]
    keys: tuple[int, int] | None = None  # where the keys begin in the index file, and how many bytes they take
    starts: tuple[int, int] | None = None  # where the starts of groups begin in the index file, and how many there are
    made: ObjectOrigin | None = None


@dataclass(frozen=True)
class Index:
    """Where the records of one file are. For a compressed file, offsets are in its inflated bytes.

    `values` holds the other indexed values: `key` (a hash), `label`, any other scalar by its name, and `length/NAME`.
    """

    offsets: NDArray[np.uint64]
    lengths: NDArray[np.uint32]
    compression: str | None = None
    values: dict[str, NDArray[Any]] = field(default_factory=dict)
    hashed: frozenset[str] = frozenset()
    sha256: str = ""  # of the file, if its build recorded it
    is_sealed: bool = True  # by its own checksum, which format 1 does not have
    is_certain: bool = True  # False: of an object that looks like the one that was indexed, and may be another
    keys: Any = None  # of all records as bytes, if they are not in a file of their own
    made: ObjectOrigin | None = None
    # Of a compressed file that can be read at random: where each group begins in the inflated bytes, and in the file.
    starts: NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def extents(self) -> NDArray[np.uint64]:
        """Offset and length of each record, as the core takes them."""
        return np.stack([self.offsets, self.lengths.astype(np.uint64)], axis=1)


def index_path(path: AnyPath) -> Path:
    """Where the index of a file is: in `_index` next to it."""
    path = as_path(path)
    return path.parent / "_index" / f"{path.name}.idx"


def keys_path(path: Path) -> Path:
    """Where the keys of a shard's records are: next to its index."""
    return index_path(path).with_suffix(".keys")


def has_lost_keys(path: Path, index: Index) -> bool:
    """Whether a shard of a dataset has an index of keys, and the keys themselves are gone."""
    if index.keys is not None or "key" not in index.values:
        return False
    return (path.parent / "dataset.json").is_file() and not keys_path(path).is_file()


def _leads_out(path: Path, place: Path) -> bool:
    """Whether what lies beside a file is a link to somewhere else, which is as if it were not there."""
    return why_not_inside(path.parent, str(place.relative_to(path.parent))) is not None


def load_keys(path: Path) -> BytesColumn | None:
    """The keys of a shard's records, mapped; None if they were not kept."""
    place = keys_path(path)
    if not _leads_out(path, place) and place.is_file():
        memory = np.frombuffer(load_bytes(local_copy(place)), np.uint8)
    elif (index := load_index(path)) is not None and index.keys is not None:
        place, memory = index_path(path), np.array(index.keys)
    else:
        return None
    count = int(memory[:8].view(np.int64)[0]) if len(memory) >= 8 else -1
    end = 8 * (count + 2)
    is_whole = count >= 0 and end <= len(memory)
    offsets = memory[8:end].view(np.int64) if is_whole else np.empty(0, np.int64)
    is_whole = is_whole and bool(offsets[0] >= 0 and (np.diff(offsets) >= 0).all() and offsets[-1] <= len(memory) - end)
    if not is_whole:  # the core trusts the offsets of a column
        raise FileProblem(place, "is damaged, or ends early", help=["Build the dataset again."])
    return BytesColumn(offsets, memory[end:])


def cached_index_path(path: AnyPath) -> Path:
    """Where the index of a file is if nobody asked for one beside it, or nothing can be written there."""
    absolute = as_path(path).absolute()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = hashlib.sha256(str(absolute.parent).encode()).hexdigest()[:16]
    return cache / "bushel" / "index" / folder / f"{absolute.name}.idx"


def write_index(
    paths: AnyPath | Iterable[AnyPath],
    *,
    label: str | None = None,
    key: str | None = None,
    values: Sequence[str] = (),
    lengths: Sequence[str] = (),
) -> list[Path]:
    """Index files and write each index next to its file, or into the user's cache if that is not possible.

    `label` and `values` name scalar features to include, `lengths` features whose number of values to include, and
    `key` the feature whose hash is the key of a record.
    """
    written = []
    given = [paths] if isinstance(paths, str | PathLike) else list(paths)
    for path in leave_out_empty([file for one in given for file in record_files(one)]):
        index = build_index(path, label=label, key=key, values=values, lengths=lengths)
        written.append(save_index(path, _with_columns_of(_fresh_index(path), index)))
    return written


def _with_columns_of(old: Index | None, new: Index) -> Index:
    """The new index, with what the old one knew about the same records: only a build knows their keys and sources."""
    if old is None or len(old) != len(new):
        return new
    values = {**{name: np.array(column) for name, column in old.values.items()}, **new.values}
    hashed = new.hashed | {name for name in old.hashed if name not in new.values}
    hashed_too = frozenset(hashed)
    return replace(new, values=values, hashed=hashed_too, sha256=old.sha256, keys=old.keys, made=old.made)


def build_index(
    path: AnyPath,
    *,
    label: str | None = None,
    key: str | None = None,
    values: Sequence[str] = (),
    lengths: Sequence[str] = (),
) -> Index:
    """Scan one file for its index; a damaged record is an error."""
    file = open_file(as_path(path))
    scalars = {name: name for name in values} | ({"label": label} if label else {}) | ({"key": key} if key else {})
    features = sorted({*scalars.values(), *lengths})
    offsets: list[NDArray[np.uint64]] = []
    sizes: list[NDArray[np.uint64]] = []
    parts: dict[str, list[Column]] = {name: [] for name in features}
    for chunk in file.chunks():
        offsets.append(chunk.extents[:, 0] + np.uint64(chunk.base))
        sizes.append(chunk.extents[:, 1])
        found: Any = []
        if features:
            found, bad, _ = _native.decode(chunk.memory, chunk.extents, [(name, False, 0) for name in features])
        else:  # offsets need no Examples
            bad = _native.verify(chunk.memory, chunk.extents, 1)
        for row, fault, _ in bad:
            raise CorruptRecord(file.path, record=chunk.first + row, offset=chunk.offset(row), fault=fault)
        for name, column in zip(features, found, strict=True):
            if column["kind"] == 0:
                raise MissingName("feature", name, _names_in(file), where=file.path)
            parts[name].append(to_column(column))
    columns = {name: concatenate(column) for name, column in parts.items() if column}
    carried, hashed = _carried(file, columns, scalars, lengths)
    index = Index(
        np.concatenate(offsets or [np.empty(0, np.uint64)]),
        np.concatenate(sizes or [np.empty(0, np.uint64)]).astype(np.uint32),
        file.compression,
        carried,
        hashed,
    )
    return _with_starts(file, index)


def _with_starts(file: RecordFile, index: Index) -> Index:
    """The index of a file that is whole, with the starts of its groups if it has any."""
    if file.compression is None or status_of(file.path).etag:  # an object is read in order
        return index
    memory = load_bytes(local_copy(file.path))
    return replace(index, starts=find_starts(memory, file.compression, index.offsets))


def obtain_index(path: AnyPath) -> tuple[Index, dict[int, Skipped]]:
    """The index of a file if it is fresh; otherwise a new one, which is kept unless the file is damaged.

    It is kept in the user's cache: reading data writes nothing beside it.
    Damage without a record counts as one; the second value says which records are damage.
    """
    is_stale = False
    try:
        known = load_index(path)
    except FormatError:
        known = None
    except StaleIndex:
        known, is_stale = None, True
    if known is not None and known.is_sealed:
        return known, {}
    index, damage = scan_index(path)
    if known is not None and not damage and np.array_equal(known.extents, index.extents):
        return known, {}
    if is_stale:  # it is not the same file as before: its manifest may know another
        index = replace(index, sha256=sha256_of(as_path(path)))
    if not damage:
        _keep(path, index)
    return index, damage


def second_look(path: AnyPath, index: Index) -> tuple[Index, dict[int, Skipped]] | None:
    """After a fault, find the records without the index; None if the index was not at fault.

    It was if an intact record of another length begins where the index has one. Records follow each other, so this is
    the case at the first place where an index goes wrong. Damage in a compressed stream may move what follows it: its
    records keep their numbers, and what is not there any more keeps a place where no record begins.
    """
    if index.compression is not None:
        found, damage = scan_index(path)
        moved = _moved(index, np.delete(found.extents, list(damage), axis=0).tolist())
        return None if moved is None else (moved, {})
    memory = np.frombuffer(load_bytes(local_copy(as_path(path))), np.uint8)
    if not any(_goes_astray(memory, index, slice(at, at + _AT_A_TIME)) for at in range(0, len(index), _AT_A_TIME)):
        return None
    found, damage = scan_index(path)
    if not damage:
        _keep(path, found)
    return found, damage


def _moved(index: Index, found: list[list[int]]) -> Index | None:
    """The index with the places at which its records were found; None if all are where it says, or lost.

    Records that are elsewhere are recognised by their lengths, in order, between those that are where they should be.
    """
    stays = {tuple(extent): row for row, extent in enumerate(index.extents.tolist())}
    rows_of: dict[int, list[int]] = {}
    for row, length in enumerate(index.lengths.tolist()):
        rows_of.setdefault(length, []).append(row)
    fixed = [stays.get(tuple(extent)) for extent in found]
    ends = list(accumulate(reversed(fixed), lambda end, row: end if row is None else row, initial=len(index)))[::-1]
    places, row = np.full(len(index), -1, np.int64), 0
    for (offset, length), place, end in zip(found, fixed, ends[1:], strict=True):
        rows = rows_of.get(length, [])
        at = bisect_left(rows, row)
        chosen = place if place is not None else rows[at] if at < len(rows) and rows[at] < end else None
        if chosen is not None:
            places[chosen], row = offset, chosen + 1
    if all(place is not None for place in fixed):
        return None
    # What is lost is put right after the beginning of a record, where no other begins.
    lost = np.maximum.accumulate(np.where(places < 0, -1, places)) + 1
    return replace(index, offsets=np.where(places < 0, lost, places).astype(np.uint64))


def _goes_astray(memory: NDArray[np.uint8], index: Index, rows: slice) -> bool:
    framing = np.frombuffer(_framing(memory, index, rows), np.uint8).reshape(-1, HEADER + FOOTER)
    stated = np.ascontiguousarray(framing[:, :8]).view("<u8")[:, 0]
    extents = np.stack([index.offsets[rows], stated], axis=1)[stated != index.lengths[rows]]
    return len(_native.verify(memory, extents, 1)) < len(extents)


def _keep(path: AnyPath, index: Index) -> None:
    with contextlib.suppress(FileProblem):
        save_index(path, index, beside=False)


def _fresh_index(path: AnyPath) -> Index | None:
    try:
        return load_index(path)
    except (StaleIndex, FormatError):
        return None


def scan_index(path: AnyPath) -> tuple[Index, dict[int, Skipped]]:
    """Find the records of a file by their headers only, past any damage."""
    file = open_file(as_path(path))
    places = [np.empty((0, 2), np.uint64)]
    damage: dict[int, Skipped] = {}

    def take(skipped: Skipped) -> None:
        record = skipped.record if skipped.record >= 0 else sum(map(len, places))
        damage[record] = skipped
        length = min(max(skipped.length - HEADER - FOOTER, 0), 2**32 - 1)
        places.append(np.array([[skipped.offset, length]], np.uint64))

    for chunk in file.chunks(on_fault=take):
        places.append(chunk.extents + np.array([chunk.base, 0], np.uint64))
    extents = np.concatenate(places)
    lengths = extents[:, 1].astype(np.uint32)
    index = Index(np.ascontiguousarray(extents[:, 0]), lengths, file.compression)
    return (index if damage else _with_starts(file, index)), damage


def _names_in(file: RecordFile) -> list[str]:
    for chunk in file.chunks():
        _, _, others = _native.decode(chunk.memory, chunk.extents[:64], [], False, 1, True)
        return [name for name, _ in others]
    return []


def _carried(
    file: RecordFile, columns: dict[str, Column], scalars: dict[str, str], lengths: Sequence[str]
) -> tuple[dict[str, NDArray[Any]], frozenset[str]]:
    carried: dict[str, NDArray[Any]] = {}
    hashed = set()
    for place, name in scalars.items():
        column = columns.get(name, np.empty(0, np.int64))
        if isinstance(column, BytesColumn) or place == "key":
            carried[place] = hash_keys(column, where=f"{file.path}: {name}")
            hashed.add(place)
        elif isinstance(column, np.ndarray) and column.ndim == 1:
            carried[place] = column if column.dtype == np.int64 else column.astype(np.float64)
        else:
            raise FileProblem(file.path, f"feature {name!r} does not hold one value in each record")
    for name in lengths:
        column = columns.get(name, np.empty(0, np.int64))
        carried[f"length/{name}"] = row_lengths(column).astype(np.int64)
    return carried, frozenset(hashed)


def row_lengths(column: Column) -> NDArray[np.int64]:
    """How many values each row has, or how many bytes if it is a single bytes value."""
    if isinstance(column, Ragged | BytesColumn):
        return column.lengths
    return np.full(len(column), count_of(column.shape[1:]), np.int64)


def hash_keys(keys: Column, *, where: str = "key") -> NDArray[np.uint64]:
    """XXH64 of each key: of its bytes, or of its decimal digits if it is an integer."""
    if isinstance(keys, np.ndarray) and keys.dtype.kind in "iu" and keys.ndim == 1:
        keys = BytesColumn.of([str(key) for key in keys.tolist()])
    if not isinstance(keys, BytesColumn):
        raise BushelError(f"{where}: a key must be one text or integer per record")
    return cast("NDArray[np.uint64]", _native.hash_column(keys.offsets, keys.data))


def save_index(path: AnyPath, index: Index, *, beside: bool = True, tie: Tie | None = None) -> Path:
    """Write an index next to its file, or into the cache."""
    path = as_path(path)
    status = status_of(path)
    data = _to_bytes(tie or tie_of(path, index), index)
    for place in (index_path(path), cached_index_path(path))[0 if beside else 1 :]:
        try:
            make_own_folder(place.parent)
            with write_whole(place, sync=False) as file:
                file.writelines(data)
        except (PermissionError, FileProblem):  # the folder is a link, which is not followed
            continue
        except OSError as error:
            if error.errno != 30:  # read-only file system
                raise
            continue
        _set_time(place, status)
        return place
    raise FileProblem(path, "its index cannot be written, neither next to it nor in the cache")


def _set_time(place: Path, status: Status) -> None:
    """Give an index the modification time of its file: while both agree, it is fresh without reading the file."""
    if not status.etag:
        with contextlib.suppress(OSError):
            os.utime(place, ns=(status.mtime_ns, status.mtime_ns))


def _to_bytes(tie: Tie, index: Index) -> list[Any]:
    arrays: dict[str, NDArray[Any]] = {"offset": index.offsets, "length": index.lengths, **index.values}
    columns, at, starts = [], 0, None
    for name, array in arrays.items():
        dtype = array.dtype.newbyteorder("<").str
        columns.append(_ColumnHeader(name=name, dtype=dtype, at=at, hashed=name in index.hashed))
        at += _round_up(array.nbytes)
    if index.starts is not None:
        starts, at = (at, len(index.starts)), at + _round_up(index.starts.nbytes)
    keys = None if index.keys is None else (at, len(index.keys))
    facts = {"records": len(index), "file": tie, "compression": index.compression, "made": index.made}
    header = _Header(columns=columns, keys=keys, starts=starts, **facts)  # type: ignore[arg-type]
    # The header holds where the arrays begin, which depends on its own length: leave room and fill it with spaces.
    places = len(columns) + (keys is not None) + (starts is not None)
    start = _round_up(_PREFIX.size + len(msgspec.json.encode(header)) + 24 * places)
    shifted = [msgspec.structs.replace(column, at=column.at + start) for column in columns]
    keys, starts = ((extent and (extent[0] + start, extent[1])) for extent in (keys, starts))
    header = msgspec.structs.replace(header, columns=shifted, keys=keys, starts=starts)
    text = msgspec.json.encode(header).ljust(start - _PREFIX.size)
    pieces: list[Any] = [_PREFIX.pack(MAGIC, 2 if starts is None else FORMAT, len(text)), text]
    for array in (*arrays.values(), *(() if index.starts is None else (index.starts,))):
        data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1).view(np.uint8).data
        pieces += [data, bytes(_round_up(len(data)) - len(data))]
    if index.keys is not None:
        pieces.append(bytes(index.keys).ljust(_round_up(len(index.keys)), b"\0"))
    checksum = 0
    for piece in pieces:
        checksum = _native.crc32c(piece, checksum)
    return [*pieces, _CRC.pack(checksum)]


def _round_up(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def tie_of(path: Path, index: Index) -> Tie:
    """What ties an index to a file as it is now."""
    status = status_of(path)
    head, tail = _ends(path, status.size)
    is_told = index.compression is not None and index.sha256
    digest = index.sha256 if is_told else _digest(path, index)
    return Tie(size=status.size, head_crc=head, tail_crc=tail, digest=digest, sha256=index.sha256, etag=status.etag)


def _ends(path: Path, size: int) -> tuple[int, int]:
    """Checksums of both ends of a file."""
    ends = (read_past_cache(path, at, min(_ENDS, size)) for at in (0, max(0, size - _ENDS)))
    head, tail = map(_native.crc32c, ends)
    return head, tail


def _digest(path: Path, index: Index) -> str:
    """A digest that changes with any record, made from the records' checksums if that saves reading the file."""
    if index.compression is not None:
        return sha256_of(path)
    digest = hashlib.sha256()
    if len(index):
        memory = np.frombuffer(load_bytes(local_copy(path)), np.uint8)
        for at in range(0, len(index), _AT_A_TIME):
            digest.update(_framing(memory, index, slice(at, at + _AT_A_TIME)))
    return digest.hexdigest()


def _framing(memory: NDArray[np.uint8], index: Index, rows: slice) -> bytes:
    """Header and footer of some records, as they are in the file; zeros for those that are missing."""
    whole: Any = _native.framing(
        memory,
        np.ascontiguousarray(index.offsets[rows], np.uint64),
        np.ascontiguousarray(index.lengths[rows], np.uint32),
    )
    if whole is not None:
        return whole  # type: ignore[no-any-return]
    offsets, lengths = index.offsets[rows].astype(np.int64), index.lengths[rows].astype(np.int64)
    starts = np.stack([offsets, offsets + HEADER + lengths], axis=1).reshape(-1)
    sizes = np.tile(np.array([HEADER, FOOTER]), len(offsets))
    places = np.concatenate([np.arange(start, start + size) for start, size in zip(starts, sizes, strict=True)])
    is_there = (places >= 0) & (places < len(memory))
    return np.where(is_there, memory[np.where(is_there, places, 0)], np.uint8(0)).tobytes()


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with open_to_read(path) as file:
        digest = hashlib.sha256()
        while data := file.read(1 << 20):
            digest.update(data)
    return digest.hexdigest()


def load_index(path: AnyPath) -> Index | None:
    """The index of a file, mapped, if it has one. Raises `StaleIndex` if the file has changed."""
    path = as_path(path)
    problem: StaleIndex | FormatError | None = None
    for place_of in (index_path, cached_index_path):  # the second is rarely needed and slow to compute
        place = place_of(path)
        if place_of is index_path and _leads_out(path, place):
            continue
        try:
            memory = load_bytes(place)
        except (FileNotFoundError, NotADirectoryError):
            continue
        try:
            return _parse(path, place, np.frombuffer(memory, np.uint8))
        except (StaleIndex, FormatError) as error:  # what was written beside the file may be older than the cache
            problem = problem or error
    if problem is not None:
        raise problem
    return None


def _parse(path: Path, place: Path, memory: NDArray[np.uint8]) -> Index:
    header = _read_header(memory, place)
    arrays = {column.name: _array(memory, column, header.records, place) for column in header.columns}
    try:
        offsets, lengths = arrays.pop("offset"), arrays.pop("length")
    except KeyError as error:
        raise FormatError(place, f"the index has no column {error}") from None
    hashed = frozenset(column.name for column in header.columns if column.hashed)
    sealed = bool(header.file.digest)
    keys = None if header.keys is None else _keys_in(memory, header.keys, place)
    index = Index(offsets, lengths, header.compression, arrays, hashed, header.file.sha256, sealed)
    starts = None if header.starts is None else _starts_in(memory, header.starts, place)
    index = replace(index, keys=keys, made=header.made, starts=starts)
    if starts is not None and not valid_starts(starts, offsets, header.file.size):
        raise FormatError(place, "the index cannot be read: its groups do not begin where records do")
    if not _covers(index, header.file.size):
        raise FormatError(place, "the index cannot be read: its records do not follow each other to the end")
    if not _holds(path, place, header.file, index):
        raise StaleIndex(path, "has changed since it was indexed", help=[f"Index it again: bushel index {path}"])
    etag = status_of(path).etag
    return replace(index, is_certain=False) if etag and etag != header.file.etag else index


def _keys_in(memory: NDArray[np.uint8], extent: tuple[int, int], place: Path) -> NDArray[np.uint8]:
    at, size = extent
    if at < 0 or at % ALIGNMENT or size < 0 or at + size > len(memory):
        raise FormatError(place, "the keys in the index do not fit its file")
    return memory[at : at + size]


def _starts_in(memory: NDArray[np.uint8], extent: tuple[int, int], place: Path) -> NDArray[np.uint64]:
    at, count = extent
    if at < 0 or at % ALIGNMENT or count < 0 or at + 16 * count > len(memory):
        raise FormatError(place, "the groups in the index do not fit its file")
    return memory[at : at + 16 * count].view(np.uint64).reshape(-1, 2)


def read_made(place: Path) -> ObjectOrigin | None:
    """How the object of an index came about, from the header of the index alone; None if it does not say."""
    found = _head(place, _HEAD_BYTES)
    return None if found is None else found[0].made


def load_lengths(path: Path, records: int, sha256: str) -> NDArray[np.uint32] | None:
    """The lengths of an object's records, from the beginning of its index; None if all of it must be looked at.

    Its checksum is at its end. But lengths that add up to the offsets, and these to the object, are right. An index of
    the file with this SHA-256 is not compared with the object: if that is another one, the checksums of records tell.
    """
    place = index_path(path)
    try:
        found = _head(place, _HEAD_BYTES + 12 * records + 2 * ALIGNMENT)
    except FileNotFoundError:
        return None
    if found is None or found[0].records != records or found[0].compression is not None:
        return None
    header, memory = found
    try:
        columns = {c.name: _array(memory, c, records, place) for c in header.columns if c.name in ("offset", "length")}
        index = Index(columns["offset"], columns["length"])
    except (FormatError, KeyError):
        return None
    status, tie = status_of(path), header.file
    is_promised = status.size == tie.size and bool(sha256) and tie.sha256 == sha256
    is_its_own = bool(status.etag) and (is_promised or _holds(path, place, tie, index))
    return np.array(index.lengths) if is_its_own and _covers(index, tie.size) else None


_HEAD_BYTES = 4096  # that hold the header of most indexes


def _head(place: Path, most: int) -> tuple[_Header, NDArray[np.uint8]] | None:
    """The header of an index of this format, and the first bytes of the index; None if that is not one."""
    data = read_head(place, most)
    if len(data) < _PREFIX.size or data[:8] != MAGIC or _PREFIX.unpack(data[: _PREFIX.size])[1] not in (2, FORMAT):
        return None
    end = _PREFIX.size + _PREFIX.unpack(data[: _PREFIX.size])[2]
    if end > len(data):
        data = read_head(place, end + most)
    try:
        return msgspec.json.decode(data[_PREFIX.size : end], type=_Header), np.frombuffer(data, np.uint8)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _covers(index: Index, size: int) -> bool:
    """Whether records follow each other, from the beginning of a file to its end where that is known."""
    ends = index.offsets + index.lengths + np.uint64(HEADER + FOOTER)
    end = int(ends[-1]) if len(ends) else 0
    is_dense = not len(ends) or (index.offsets[0] == 0 and np.array_equal(index.offsets[1:], ends[:-1]))
    return is_dense and (index.compression is not None or end == size)


def _read_header(memory: NDArray[np.uint8], place: Path) -> _Header:
    prefix = memory[: _PREFIX.size].tobytes()
    if len(prefix) < _PREFIX.size or prefix[:8] != MAGIC:
        raise FormatError(place, "not a bushel index")
    _, version, length = _PREFIX.unpack(prefix)
    if not 1 <= version <= FORMAT:
        raise FormatError(place, f"index of format {version}; this bushel reads formats up to {FORMAT}")
    if version > 1 and _native.crc32c(memory[: -_CRC.size]) != _CRC.unpack(memory[-_CRC.size :].tobytes())[0]:
        raise FormatError(place, "the index is damaged: its checksum does not match")
    try:
        header = msgspec.json.decode(memory[_PREFIX.size : _PREFIX.size + length].tobytes(), type=_Header)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(place, f"the index cannot be read: {error}") from None
    if header.compression not in (None, *SHARD_CODECS) or (version > 1 and not header.file.digest):
        raise FormatError(place, "the index cannot be read: its header is not one that bushel writes")
    return header


def _array(memory: NDArray[np.uint8], column: _ColumnHeader, records: int, place: Path) -> NDArray[Any]:
    if column.dtype not in _DTYPES or column.dtype != _FIXED.get(column.name, column.dtype):
        raise FormatError(place, f"column {column.name!r} of the index is of type {column.dtype!r}, which it cannot be")
    dtype = np.dtype(column.dtype)
    end = column.at + records * dtype.itemsize
    if records < 0 or column.at < 0 or column.at % ALIGNMENT or end > len(memory):
        raise FormatError(place, f"column {column.name!r} of the index does not fit its file")
    return memory[column.at : end].view(dtype)


def _holds(path: Path, place: Path, tie: Tie, index: Index) -> bool:
    """Whether a file is still the one that was indexed. Its records are read only if times differ."""
    status = status_of(path)
    if status.size != tie.size:
        return False
    if status.etag:  # objects are replaced, never changed: another one is unlikely to begin and end the same
        return status.etag == tie.etag or _ends(path, status.size) == (tie.head_crc, tie.tail_crc)
    if not tie.digest:
        return status.mtime_ns == tie.mtime_ns or _ends(path, status.size) == (tie.head_crc, tie.tail_crc)
    if status_of(place).mtime_ns == status.mtime_ns:
        return True
    if _digest(path, index) != tie.digest:
        return False
    _set_time(place, status)
    return True


def to_text(index: Index) -> str:
    """The index as DALI's `tfrecord2idx` writes it: offset and size of each record, including framing."""
    sizes = index.lengths.astype(np.uint64) + np.uint64(16)
    return "".join(f"{offset} {size}\n" for offset, size in zip(index.offsets.tolist(), sizes.tolist(), strict=True))
