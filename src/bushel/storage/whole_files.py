"""Reading and writing files, on disk and in stores alike. What is written appears completely or not at all."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import socket
import stat
import tempfile
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.errors import FileProblem
from bushel.parallel import Ahead
from bushel.storage import stores
from bushel.storage.doors import name_for_library, open_named, read_named
from bushel.storage.listing import AnyPath, as_path, similar_names
from bushel.storage.objects import ObjectFile, ObjectPath, take_parked
from bushel.storage.stores import Status
from bushel.storage.whole_folders import sync_folder

__all__ = [
    "InOrder",
    "Status",
    "check_writable",
    "copy_file",
    "describe_os_error",
    "fetch_extents",
    "give_name",
    "load_bytes",
    "map_reads",
    "new_folder",
    "open_in_order",
    "open_to_read",
    "openable",
    "read_each",
    "read_head",
    "read_if_there",
    "read_past_cache",
    "read_together",
    "remove_below",
    "status_of",
    "temporary_path",
    "upload",
    "whole_path",
    "write_array",
    "write_whole",
]

T = TypeVar("T")
R = TypeVar("R")
_AT_ONCE = 16  # small objects under way


def describe_os_error(path: Path, error: OSError) -> FileProblem:
    """An error of the operating system in one line."""
    return FileProblem(path, (error.strerror or str(error)).lower())


def status_of(path: Path) -> Status:
    """Size, time and, in a store, entity tag. Raises FileNotFoundError if there is no such file."""
    if isinstance(path, ObjectPath):
        return path.status()
    found = path.stat()
    return Status(found.st_size, "", found.st_mtime_ns)


def open_to_read(path: Path) -> IO[bytes]:
    """Open a file, or say in one line why it cannot be opened."""
    try:
        return open_named(path)
    except PermissionError:
        raise FileProblem(path, "there is no permission to read this file") from None
    except FileNotFoundError:
        raise FileProblem(path, "there is no such file", help=similar_names(path)) from None


class _DiskFile:
    """A file on disk that is read from its beginning to its end."""

    read_again = None  # a disk gives the same bytes twice

    def __init__(self, file: IO[bytes]) -> None:
        self.read, self.seek, self.tell, self.close = file.read, file.seek, file.tell, file.close
        self.size = os.fstat(file.fileno()).st_size
        self._descriptor = file.fileno()

    def pieces(self) -> Iterator[tuple[int, Any]]:
        """All of it, mapped: its offset and its bytes."""
        if self.size:  # an empty file cannot be mapped
            yield 0, _mapped(f"/dev/fd/{self._descriptor}", self.size)

    def put_back(self) -> None:
        """Close it."""
        self.close()

    def __enter__(self) -> _DiskFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


InOrder = _DiskFile | ObjectFile


def open_in_order(path: Path) -> InOrder:
    """Open a file to read it from beginning to end; in a store, its bytes are then on their way."""
    if isinstance(path, ObjectPath):
        return take_parked(path) or ObjectFile(path.key, path.status(), in_order=True)
    return _DiskFile(open_to_read(path))


def openable(path: Path) -> Any:
    """A name or an open file, for libraries that take either."""
    return path.open("rb") if isinstance(path, ObjectPath) else name_for_library(path)


def load_bytes(path: Path) -> Any:
    """All bytes of a file, mapped if it is on disk. Raises FileNotFoundError if there is no such file."""
    if isinstance(path, ObjectPath):
        return path.read_bytes()
    # Mapped by the core, which keeps no file open: a dataset may have more shards than a process may have files.
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):  # a pipe would wait for ever
        raise FileNotFoundError(2, "is not a file", str(path))
    return _mapped(str(path), status.st_size)


def _mapped(name: str, size: int) -> Any:
    """A mapped file. If it is truncated later, the rest reads as zeros, which checksums reveal, and no process ends."""
    return _native.Mapping([(name, size)]).memory[:size]  # type: ignore[index] # its last page is longer


def read_past_cache(path: Path, offset: int, length: int) -> bytes:
    """Read bytes again from the disk or store itself, not from memory, if the system allows it."""
    if isinstance(path, ObjectPath):
        return bytes(stores.get(path.key, offset, offset + length, path.status().etag))
    with path.open("rb", buffering=0) as file:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), offset, length, os.POSIX_FADV_DONTNEED)
        return os.pread(file.fileno(), length, offset)


def read_head(path: Path, most: int) -> bytes:
    """The first bytes of a file, at most so many. Raises FileNotFoundError if there is no such file."""
    if isinstance(path, ObjectPath):
        return stores.get_head(path.key, most)
    with open_named(path) as file:
        return file.read(most)


def read_if_there(path: Path) -> bytes | None:
    """All bytes of a file; None if there is no such file, which a store is not asked first."""
    if not isinstance(path, ObjectPath) and not path.is_file():
        return None
    try:
        return read_named(path)
    except FileNotFoundError:
        return None


def map_reads(read: Callable[[T], R], items: Iterable[T], place: Path) -> Iterator[R]:
    """What `read` returns for each item, in order; several at a time if `place` is in a store, which answers slowly."""
    if isinstance(place, ObjectPath):
        return iter(Ahead(read, items, threads=_AT_ONCE, ahead=_AT_ONCE))
    return map(read, items)


def fetch_extents(extents: Sequence[tuple[Path, int, int]], into: Path) -> list[tuple[Path, int]]:
    """Where bytes are on this machine: in their files, or, if those are in a store, one after the other in a new one.

    An extent is a file, an offset and a size.
    """
    if not any(isinstance(path, ObjectPath) for path, _, _ in extents):
        return [(path, start) for path, start, _ in extents]
    starts = [0, *accumulate(size for _, _, size in extents)]
    with into.open("wb", buffering=0) as file, ThreadPoolExecutor(_AT_ONCE) as pool:

        def fetch(extent: tuple[Path, int, int], at: int) -> None:
            path, start, size = extent
            os.pwrite(file.fileno(), read_past_cache(path, start, size), at)

        deque(pool.map(fetch, extents, starts), maxlen=0)
    return [(into, start) for start in starts[:-1]]


def read_each(paths: Iterable[Path], *, most_bytes: int | None = None) -> Iterator[tuple[Path, Callable[[], bytes]]]:
    """Small files, each with a function that returns its bytes or raises; those in a store are fetched in advance.

    A file on disk of more than `most_bytes` is a ValueError.
    """
    paths = iter(paths)
    first = next(paths, None)
    if first is None:
        return
    if isinstance(first, ObjectPath):
        yield from Ahead(_fetched, chain([first], paths), threads=_AT_ONCE, ahead=_AT_ONCE)
    else:
        yield from ((path, partial(_read_small, path, most_bytes)) for path in chain([first], paths))


def _fetched(path: Path) -> tuple[Path, Callable[[], bytes]]:
    try:
        data = path.read_bytes()
    except Exception as error:
        return path, partial(_raise, error)
    return path, lambda: data


def _raise(error: Exception) -> Any:
    raise error


def _read_small(path: Path, most_bytes: int | None) -> bytes:
    if most_bytes is not None and path.stat().st_size > most_bytes:
        raise ValueError(f"has more than {most_bytes >> 20} MiB")
    return read_named(path)


def read_together(folder: Path, names: tuple[Any, Any], sizes: Any, *, threads: int) -> Any:
    """Files below a folder, one after the other in one array; None if one cannot be read or has another size.

    `names` are the offsets and bytes of their names. None for files of a store, which are not read this way.
    """
    if isinstance(folder, ObjectPath):
        return None
    found: Any = _native.read_files(os.fsencode(folder), *names, sizes, threads)
    data, faults = found
    return None if faults.any() else data


def new_folder(within: Path | None) -> Path:
    """A new folder in another, or in the system's temporary one, that is removed with this process.

    In a store it stays until whoever owns `within` removes it: other machines may still read it.
    """
    if isinstance(within, ObjectPath):
        return within / uuid.uuid4().hex
    if within is not None:
        within.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bushel-", dir=within))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def temporary_path(path: Path) -> Path:
    """Where a file is written until it is complete: next to it, under a name that no other process uses."""
    return path.with_name(f".{path.name}.{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}.partial")


def whole_path(path: Path) -> Path:
    """Where a file is written until it is complete: next to it, or on this machine if it goes to a store."""
    if not isinstance(path, ObjectPath):
        return temporary_path(path)
    return temporary_path(Path(tempfile.gettempdir()) / path.name)


def give_name(temporary: Path, path: Path) -> None:
    """Give a complete file its own name."""
    if isinstance(path, ObjectPath):
        path.put(temporary)
        temporary.unlink()
    else:
        temporary.replace(path)


@contextlib.contextmanager
def write_whole(path: AnyPath, *, sync: bool = True) -> Iterator[IO[bytes]]:
    """Write a file under another name, and give it its own when all of it is written.

    On any exception the file that was there before, if any, is unchanged.
    """
    path = as_path(path)
    temporary = whole_path(path)
    try:
        with temporary.open("wb") as file:  # buffered: otherwise a full disk takes a part of the bytes without an error
            yield file
            file.flush()
            if sync:
                os.fsync(file.fileno())
        give_name(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if sync and not isinstance(path, ObjectPath):
        sync_folder(path.parent)


def write_array(file: IO[bytes], array: NDArray[Any]) -> None:
    """Write an array as a .npy file. NumPy itself does not say that a disk is full."""
    array = np.ascontiguousarray(array)
    np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
    file.write(array.reshape(-1).view(np.uint8).data)


def check_writable(path: Path) -> None:
    """Refuse a path to which nothing can ever be written."""
    if isinstance(path, ObjectPath):
        stores.check_writable(path.key)


def upload(file: Path, path: Path) -> Status:
    """Copy a file on disk into a store; it appears there when all of it is written."""
    assert isinstance(path, ObjectPath)
    return path.put(file)


def copy_file(source: Path, target: Path) -> None:
    """Copy a file; inside a bucket, its bytes do not pass through this machine."""
    if isinstance(source, ObjectPath) and isinstance(target, ObjectPath):
        source.copy_to(target)
    else:
        target.write_bytes(source.read_bytes())


def remove_below(folder: Path, *keep: Path) -> None:
    """Remove every object below a folder of a store, except some and what is below them."""
    assert isinstance(folder, ObjectPath)
    folder.remove_below(*keep)
