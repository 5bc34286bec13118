"""Bytes of objects on this machine's disk: shared by its processes, up to a size, the least recently used leave first.

A file of the cache is written under another name and renamed, and never changed: whoever finds it finds it whole, and
whoever has it open keeps it when it is removed. Two processes that fetch the same bytes both write them; one stays.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import mmap
import os
import re
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from bushel.storage import stores
from bushel.storage.objects import ObjectPath
from bushel.storage.stores import Status
from bushel.storage.streams import in_background

__all__ = ["Cache", "local_copy", "the_cache"]

DEFAULT_SIZE = 16 << 30
_COPY_RANGE = 32 << 20
_UNDER_WAY = 4
_PINNED = 128  # copies that a process holds at most: each takes a descriptor
_ABANDONED = 3600  # seconds after which what is half written is taken to be left behind
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Cache:
    """Files in a folder, together no larger than `limit` bytes but for what is in use."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self._added: int | None = None  # bytes since the folder was last looked at
        self._pins: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, name: str) -> Any:
        """The bytes of a file, mapped; None if it is not there. It counts as used now."""
        path = self.folder / name
        try:
            with path.open("rb") as file:
                os.utime(file.fileno())
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (FileNotFoundError, ValueError):
            return None

    def add(self, name: str, data: Any) -> None:
        """Keep bytes. A disk that is full, or cannot be written, only means that they are not kept."""
        if len(data) > self.limit:
            return
        with contextlib.suppress(OSError):
            self._make_room(len(data))
            with self._new_file() as (descriptor, temporary):
                _write_all(descriptor, data, 0)
                temporary.rename(self.folder / name)

    def forget(self, name: str) -> None:
        """Remove what turned out to be wrong."""
        with contextlib.suppress(OSError):
            (self.folder / name).unlink(missing_ok=True)

    def copy_of(self, path: ObjectPath) -> Path:
        """An object as a file, which stays for as long as this process is likely to need it."""
        status = path.status()
        name = f"{name_of(path, status)}.whole"
        while True:
            with self._fetching(name):
                if not (self.folder / name).exists():
                    self._fetch(path, status, name)
            if self._pin(name):
                return self.folder / name

    def _fetch(self, path: ObjectPath, status: Status, name: str) -> None:
        self._make_room(status.size)
        with self._new_file() as (descriptor, temporary):
            os.truncate(descriptor, status.size)
            starts = iter(range(0, status.size, _COPY_RANGE))

            def copy(start: int) -> None:
                stop = min(start + _COPY_RANGE, status.size)
                _write_all(descriptor, stores.get(path.key, start, stop, status.etag), start)

            under_way = [in_background(copy, start) for start, _ in zip(starts, range(_UNDER_WAY), strict=False)]
            try:
                while under_way:
                    under_way.pop(0).result()
                    under_way.extend(in_background(copy, start) for start, _ in zip(starts, range(1), strict=False))
            finally:
                for future in under_way:
                    future.cancel()
                    with contextlib.suppress(BaseException):
                        future.result()
            temporary.rename(self.folder / name)

    def _pin(self, name: str) -> bool:
        """Hold a file so that nobody removes it; False if it is gone already."""
        with self._lock:
            if name in self._pins:
                self._pins.move_to_end(name)
                return True
            try:
                descriptor = os.open(self.folder / name, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return False
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if os.fstat(descriptor).st_nlink == 0:  # removed before it was held
                os.close(descriptor)
                return False
            os.utime(descriptor)
            self._pins[name] = descriptor
            while len(self._pins) > _PINNED:
                os.close(self._pins.popitem(last=False)[1])
            return True

    @contextlib.contextmanager
    def _fetching(self, name: str) -> Iterator[None]:
        """One process at a time fetches a large object; the others find it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder / f"lock-{name[:2]}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _new_file(self) -> Iterator[tuple[int, Path]]:
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix="new-", dir=self.folder)
        try:
            yield descriptor, Path(name)
        finally:
            os.close(descriptor)
            Path(name).unlink(missing_ok=True)  # it has its own name by now, unless something failed

    def _make_room(self, size: int) -> None:
        """Look at the folder now and then, so that all processes together keep to the limit."""
        with self._lock:
            is_due = self._added is None or (self._added + size) * 16 > self.limit
            self._added = size if is_due else (self._added or 0) + size
        if is_due:
            self.evict(room=size + self.limit // 16)

    def evict(self, room: int = 0) -> None:
        """Remove what was used longest ago until there is room; one process does it, the others go on."""
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder / "lock-evict", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            files = self._files()
            total = sum(size for _, size, _ in files)
            for _, size, path in sorted(files):
                if total + room <= self.limit:
                    break
                if _remove_unless_held(path):
                    total -= size
        finally:
            os.close(descriptor)

    def _files(self) -> list[tuple[float, int, Path]]:
        found = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.startswith("lock-"):
                    continue
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat()
                    if entry.name.startswith("new-") and time.time() - status.st_mtime < _ABANDONED:
                        continue
                    found.append((status.st_mtime, status.st_size, Path(entry.path)))
        return found


def _remove_unless_held(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _write_all(descriptor: int, data: Any, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, at)
        view, at = view[written:], at + written


def name_of(path: ObjectPath, status: Status) -> str:
    """What an object is called in the cache: another version of it is another object."""
    told = f"{path}\0{status.etag or status.mtime_ns}\0{status.size}"
    return hashlib.sha256(told.encode()).hexdigest()[:32]


@lru_cache(maxsize=1)
def the_cache() -> Cache:
    """The cache of this machine: in $BUSHEL_CACHE, of $BUSHEL_CACHE_SIZE."""
    folder = os.environ.get("BUSHEL_CACHE")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Cache(Path(folder) if folder else home / "bushel" / "objects", _limit())


def _limit() -> int:
    text = os.environ.get("BUSHEL_CACHE_SIZE", "").strip().upper()
    if not text:
        return DEFAULT_SIZE
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?", text)
    if found is None:
        raise ValueError(f"BUSHEL_CACHE_SIZE must be a size such as 20G, or 0; got {text!r}")
    return int(float(found[1]) * _UNITS[found[2]])


def local_copy(path: Path) -> Path:
    """A file of this machine with the same bytes: the path itself, or a copy in the cache."""
    return the_cache().copy_of(path) if isinstance(path, ObjectPath) else path
