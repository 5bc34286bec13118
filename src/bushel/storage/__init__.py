"""Where files are, here or in an object store: paths, patterns, and writing that happens whole or not at all.

The rest of bushel knows no stores: `as_path` gives it paths, and those of objects take the verbs of `Path`.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import socket
import stat
import tempfile
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import IO, Any, TypeAlias

from bushel.errors import FileProblem, nearest
from bushel.storage.objects import ObjectPath, is_object, parse_object
from bushel.storage.streams import in_background

__all__ = [
    "AnyPath",
    "ObjectPath",
    "as_path",
    "is_object",
    "list_files",
    "listed",
    "natural_order",
    "presence",
    "read_each",
    "shard_paths",
    "temporary_path",
    "write_whole",
]

AnyPath: TypeAlias = str | PathLike[str]
_AT_ONCE = 16  # small objects on their way

# Files of bushel's own that stand beside the data, and hidden ones.
_BESIDE = re.compile(r"^[._]|\.schema\.json$|^dataset\.json$|^recipe\.toml$")


def as_path(path: AnyPath) -> Path:
    """A path of this machine, or of an object store if it begins with s3://, gs:// or az://."""
    return parse_object(path) or Path(path)


def list_files(paths: AnyPath | Iterable[AnyPath]) -> list[Path]:
    """Turn files, folders and patterns into the files that they name.

    Files come in the order given; those of one pattern or folder in the order of the numbers in their names. A path
    that names nothing is an error.
    """
    given = [paths] if isinstance(paths, str | PathLike) else list(paths)
    if not given:
        raise ValueError("paths must name at least one file, got none")
    files: list[Path] = []
    for path in given:
        files.extend(_files_of(as_path(path)))
    return files


def _files_of(path: Path) -> list[Path]:
    if isinstance(path, ObjectPath):
        return _objects_of(path)
    if path.is_dir():
        found = [file for file in path.iterdir() if not _BESIDE.search(file.name) and file.is_file()]
        if not found:
            raise FileProblem(path, "there are no files in this folder")
        return sorted(found, key=natural_order)
    if path.exists():
        return [path]
    if glob.has_magic(str(path)):
        found = [Path(name) for name in glob.iglob(str(path), recursive=True) if Path(name).is_file()]
        if not found:
            raise FileProblem(path, "no file matches this pattern", help=[f"It was looked for from {Path.cwd()}"])
        return sorted(found, key=natural_order)
    raise FileProblem(path, "there is no such file", help=_similar(path))


def _objects_of(path: ObjectPath) -> list[Path]:
    if path.known is not None:
        return [path]
    if glob.has_magic(str(path)):
        found: list[Path] = [file for file in path.matching() if not file.name.startswith(".")]
        if not found:
            raise FileProblem(path, "no object matches this pattern")
        return sorted(found, key=natural_order)
    inside = list(path.iterdir())
    if not inside and path.key.name and path.is_file():
        return [path]
    found = [file for file in inside if file.known is not None and not _BESIDE.search(file.name)]
    if not inside:
        raise FileProblem(path, "there is no such object", help=_similar(path))
    if not found:
        raise FileProblem(path, "there are no objects in this folder")
    return sorted(found, key=natural_order)


def listed(paths: list[Path]) -> list[Path]:
    """The same paths; objects with what a listing of their folder tells, so that none is asked for on its own."""
    if len(paths) < 3 or not all(isinstance(path, ObjectPath) for path in paths):
        return paths
    there = {file: file for folder in {path.parent for path in paths} for file in folder.iterdir()}
    return [there.get(path, path) for path in paths]


def presence(*folders: Path) -> Callable[[Path], bool]:
    """A function that says whether a file is there: a disk is asked each time, a store is listed once a folder."""
    if not any(isinstance(folder, ObjectPath) for folder in folders):
        return Path.is_file
    there = {
        str(path) for folder in dict.fromkeys(folders) if isinstance(folder, ObjectPath) for path in folder.below()
    }
    return lambda path: str(path) in there


def read_each(paths: Iterable[Path]) -> Iterator[tuple[Path, Callable[[], bytes]]]:
    """Small files, each with a function that gives its bytes or raises; those of a store are on their way before."""
    coming: deque[tuple[Path, Callable[[], bytes]]] = deque()
    for path in paths:
        if not isinstance(path, ObjectPath):
            yield path, path.read_bytes
            continue
        coming.append((path, in_background(path.read_bytes).result))
        if len(coming) > _AT_ONCE:
            yield coming.popleft()
    yield from coming


def shard_paths(folder: Path, names: Iterable[str]) -> list[Path]:
    """The files of a dataset. What a store knows of its objects is listed once, not asked for one by one."""
    if not isinstance(folder, ObjectPath):
        return [folder / name for name in names]
    there = {file.name: file for file in folder.iterdir()}
    return [there.get(name, folder / name) for name in names]


def _similar(path: Path) -> list[str]:
    if isinstance(path, ObjectPath):
        near = [file.name for file in path.parent.iterdir()] if len(path.parts) > 2 else []
        close = nearest(path.name, near)
        return [f"Did you mean {path.parent / close}?"] if close else []
    if not path.parent.is_dir():
        return [f"There is no folder {path.parent} either; it was looked for from {Path.cwd()}"]
    close = nearest(path.name, [file.name for file in path.parent.iterdir()])
    return [f"Did you mean {path.parent / close}?"] if close else []


def natural_order(path: Path) -> list[Any]:
    """A sort key by which part-10 comes after part-9."""
    pieces = re.split(r"(\d+)", str(path))
    return [int(piece) if i % 2 else piece for i, piece in enumerate(pieces)]


def open_to_read(path: Path) -> IO[bytes]:
    """Open a file, or say in one line why that cannot be done."""
    try:
        if isinstance(path, ObjectPath):
            return path.open("rb", buffering=0)
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise FileProblem(path, "is a folder, not a file")
        return path.open("rb", buffering=0)
    except PermissionError:
        raise FileProblem(path, "there is no permission to read this file") from None
    except FileNotFoundError:
        raise FileProblem(path, "there is no such file", help=_similar(path)) from None


def temporary_path(path: Path) -> Path:
    """Where a file is written until it is whole: beside it, under a name that no other process on any machine takes."""
    return path.with_name(f".{path.name}.{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}.partial")


def whole_path(path: Path) -> Path:
    """Where a file is written until it is whole: beside it, or on this machine if it is to be an object."""
    if not isinstance(path, ObjectPath):
        return temporary_path(path)
    return temporary_path(Path(tempfile.gettempdir()) / path.name)


def give_name(temporary: Path, path: Path) -> None:
    """Let a file that is whole appear under its own name."""
    if isinstance(path, ObjectPath):
        path.put(temporary)
        temporary.unlink()
    else:
        temporary.replace(path)


@contextlib.contextmanager
def write_whole(path: AnyPath, *, sync: bool = True) -> Iterator[IO[bytes]]:
    """Write a file under another name, and give it its own only when all of it is there.

    On any exception the file that was there before, if any, is as it was.
    """
    path = as_path(path)
    temporary = whole_path(path)
    try:
        with temporary.open("wb", buffering=0) as file:
            yield file
            if sync:
                os.fsync(file.fileno())
        give_name(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if sync and not is_object(path):
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename last through a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def describe_os_error(path: Path, error: OSError) -> FileProblem:
    """An error of the operating system in one line."""
    return FileProblem(path, (error.strerror or str(error)).lower())
