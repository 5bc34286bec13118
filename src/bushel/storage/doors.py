"""The doors: the one way to open, make or remove a path that something other than the user names.

A manifest, a recipe, a table, an archive or a model may come from anybody, and so may a folder in which bushel finds
its own files. What they name is opened below a root, which the user named. Each part of the name is opened by the
descriptor of the one before it, so nothing that is changed in between leads elsewhere. Links out of the root are
refused at every level, and so are pipes, sockets, devices and addresses.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import re
import shutil
import stat
import struct
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from bushel.errors import FileProblem, printable
from bushel.storage.objects import ObjectPath

__all__ = [
    "check_own_folder",
    "descriptor_inside",
    "empty_folder",
    "lines_inside",
    "make_own_folder",
    "name_for_library",
    "open_inside",
    "open_named",
    "read_inside",
    "read_named",
    "refuse_special",
    "why_not_inside",
    "why_special",
]

_OPENAT2 = 437  # the same number on every kind of processor
_BENEATH, _NO_MAGIC_LINKS = 0x08, 0x02
_UNDECIDED = (errno.ENOSYS, errno.EPERM, errno.EXDEV, errno.ELOOP, errno.EAGAIN, errno.E2BIG, errno.EINVAL)
_ADDRESS = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:(/|$)|://")
_LONGEST = 255  # bytes of a name, on every file system
_LONGEST_LINE = 1 << 20  # bytes
_LARGEST = 0x7FFFF000  # bytes of a sample: what one read returns

_SPECIAL = {
    stat.S_IFDIR: "is a folder, not a file",
    stat.S_IFIFO: "is a pipe, which bushel does not read",
    stat.S_IFSOCK: "is a socket, which bushel does not read",
    stat.S_IFCHR: "is a device, which bushel does not read",
    stat.S_IFBLK: "is a device, which bushel does not read",
}


def why_special(mode: int) -> str | None:
    """Why what has this mode is not read as a file, as the end of a sentence; None for a file."""
    kind = stat.S_IFMT(mode)
    return None if kind == stat.S_IFREG else _SPECIAL.get(kind, "is not a file")


def refuse_special(path: Path, *, folders: bool = False) -> None:
    """Refuse a pipe, a socket or a device, which may never end; and a folder, unless those are allowed."""
    if isinstance(path, ObjectPath):
        return
    mode = path.stat().st_mode
    if (why := why_special(mode)) is not None and not (folders and stat.S_ISDIR(mode)):
        raise FileProblem(path, why)


def why_not_inside(root: Path, name: str) -> str | None:
    """Why a name does not lead to something below a folder, as the end of a sentence; None if it does.

    What is not there yet may be inside; a link may lead to another place inside.
    """
    if (why := _why_no_name(name)) is not None:
        return why
    if isinstance(root, ObjectPath):
        return None
    try:
        os.close(_opened(root, name, os.O_PATH if hasattr(os, "O_PATH") else os.O_RDONLY | os.O_NONBLOCK))
    except _Outside:
        return "is a link that leaves the folder"
    except OSError:
        return None  # it is not there, or cannot be opened, which whoever opens it says
    return None


def open_inside(root: Path, name: str) -> IO[bytes]:
    """Open a file below a folder to read it, or say in one line why not."""
    if isinstance(root, ObjectPath):
        if (why := _why_no_name(name)) is not None:
            raise FileProblem(root, f"{printable(name)!r} {why}")
        return (root / name).open("rb")
    return os.fdopen(descriptor_inside(root, name), "rb", buffering=0)


def descriptor_inside(root: Path, name: str) -> int:
    """A descriptor of a file below a folder, for reading. Raises FileNotFoundError if there is none."""
    if (why := _why_no_name(name)) is not None:
        raise FileProblem(root, f"{printable(name)!r} {why}")
    try:
        opened = _opened(root, name, os.O_RDONLY | os.O_NONBLOCK)  # a pipe without a writer does not make us wait
    except _Outside:
        raise FileProblem(root / name, "is a link that leaves the folder") from None
    except PermissionError:
        raise FileProblem(root / name, "there is no permission to read this file") from None
    if (why := why_special(os.fstat(opened).st_mode)) is not None:
        os.close(opened)
        raise FileProblem(root / name, why)
    os.set_blocking(opened, True)
    return opened


def open_named(path: Path) -> IO[bytes]:
    """Open an ordinary file that a source of the user's names, wherever it is, or say in one line why not."""
    if isinstance(path, ObjectPath):
        return path.open("rb")
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError:
        raise FileProblem(path, "is not the name of a file") from None
    if (why := why_special(os.fstat(opened).st_mode)) is not None:
        os.close(opened)
        raise FileProblem(path, why)
    os.set_blocking(opened, True)
    return os.fdopen(opened, "rb", buffering=0)


def read_named(path: Path) -> bytes:
    """All bytes of an ordinary file that a source of the user's names, wherever it is."""
    if isinstance(path, ObjectPath):
        return path.read_bytes()
    with open_named(path) as file:
        return _whole(file, path)


def read_inside(root: Path, name: str) -> bytes:
    """All bytes of a file below a folder."""
    with open_inside(root, name) as file:
        return file.read() if isinstance(root, ObjectPath) else _whole(file, root / name)


def lines_inside(root: Path, name: str) -> Iterator[bytes]:
    """The lines of a file below a folder; of a line that does not end, its beginning."""
    held = b""
    with open_inside(root, name) as file:
        while piece := file.read(_LONGEST_LINE):
            *lines, held = (held + piece).split(b"\n")
            yield from lines
            held = held[:_LONGEST_LINE]
    if held:
        yield held


def _whole(file: IO[bytes], path: Path) -> bytes:
    size = os.fstat(file.fileno()).st_size
    if size > _LARGEST:
        raise FileProblem(path, f"has {size:,} bytes, and a sample has at most {_LARGEST:,}")
    return file.read(size) if size else file.read(_LARGEST)  # files of /proc say that they are empty


def name_for_library(path: Path) -> str:
    """The name of a file for a library that would take `http:/…` or `pipe:` for an address: it is absolute."""
    return os.path.abspath(path)  # noqa: PTH100, which leaves links as they are


def _why_no_name(name: str) -> str | None:
    """Why a text is not the name of something below a folder, whatever is there."""
    parts = PurePosixPath(name).parts
    if not parts or "\0" in name or "\\" in name or max(len(os.fsencode(part)) for part in parts) > _LONGEST:
        return "is not the name of a file"
    if _ADDRESS.search(name):
        return "is an address, not a file"
    if name.startswith("/") or ".." in parts:
        return "is not in the folder"
    return None


class _Outside(Exception):
    """A link leaves the root."""


def _opened(root: Path, name: str, flags: int) -> int:
    top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = _open_beneath(top, name, flags | os.O_CLOEXEC)
        return _walk(root, top, name, flags | os.O_CLOEXEC) if found is None else found
    finally:
        os.close(top)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _open_beneath(top: int, name: str, flags: int) -> int | None:
    """One call of the kernel for the whole name; None where there is none, or if it is not sure."""
    if not sys.platform.startswith("linux"):
        return None
    how = ctypes.create_string_buffer(struct.pack("QQQ", flags, 0, _BENEATH | _NO_MAGIC_LINKS), 24)
    found = int(_libc().syscall(_OPENAT2, top, os.fsencode(name), how, 24))
    if found >= 0:
        return found
    code = ctypes.get_errno()
    if code in _UNDECIDED:  # as for an absolute link, which may still lead to a place inside
        return None
    raise OSError(code, os.strerror(code), name)


def _walk(root: Path, top: int, name: str, flags: int) -> int:
    """Follow the name by hand. Links are resolved first; what is opened then holds none."""
    within, real = Path(os.path.realpath(root)), Path(os.path.realpath(root / name))
    if not real.is_relative_to(within):
        raise _Outside
    parts = real.relative_to(within).parts
    held = os.dup(top)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=held)
            os.close(held)
            held = inner
        return os.open(parts[-1] if parts else ".", flags | os.O_NOFOLLOW, dir_fd=held)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):  # it became a link in between
            raise _Outside from None
        raise
    finally:
        os.close(held)


def check_own_folder(folder: Path) -> None:
    """Refuse a folder or file of bushel's own that is a link, or holds one: what is there would be changed."""
    if isinstance(folder, ObjectPath):
        return
    try:
        mode = folder.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISLNK(mode):
        raise _refused(folder, "is a link")
    if not stat.S_ISDIR(mode):
        if (why := why_special(mode)) is not None:
            raise FileProblem(folder, why)
        return
    for path, entry in _below(folder):
        if entry.is_symlink():
            raise _refused(path, "is a link")
        if not entry.is_dir(follow_symlinks=False) and not entry.is_file(follow_symlinks=False):
            raise _refused(path, "is neither a file nor a folder")


def make_own_folder(folder: Path) -> None:
    """Make a folder of bushel's own, if it is not there; refuse a link in its place."""
    folder.mkdir(parents=True, exist_ok=True)
    if not isinstance(folder, ObjectPath) and folder.is_symlink():
        raise _refused(folder, "is a link")


def _refused(path: Path, what: str) -> FileProblem:
    help = ["Nothing was changed. Remove it, or choose another folder."]
    return FileProblem(path, f"{what}, and bushel follows none among its own files", help=help)


def _below(folder: Path) -> Iterator[tuple[Path, os.DirEntry[str]]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield folder / entry.name, entry
            if entry.is_dir(follow_symlinks=False):
                yield from _below(folder / entry.name)


def empty_folder(folder: Path, *, keep: str = "") -> None:
    """Remove everything in a folder of bushel's own but what is called `keep`; a link is removed, not followed."""
    if isinstance(folder, ObjectPath):
        folder.remove_below(*([folder / keep] if keep else []))
        return
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with os.scandir(opened) as entries:
            inside = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries if entry.name != keep]
        for name, is_folder in inside:
            if is_folder:
                shutil.rmtree(name, dir_fd=opened)
            else:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=opened)
    finally:
        os.close(opened)
