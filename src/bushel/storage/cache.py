"""Bytes of objects on this machine's disk, shared by its processes, up to a size; the least recently used go first.

A file of the cache is written under another name and renamed, and never changed: whoever finds it finds it complete,
and whoever has it open keeps it when it is removed. Two processes that fetch the same bytes both write them; one stays.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import mmap
import os
import tempfile
import threading
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import lru_cache
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any, TypeAlias

from bushel.errors import FileProblem
from bushel.parallel import Ahead, in_background
from bushel.storage.objects import ObjectPath
from bushel.storage.stores import Status, cache_limit, get

__all__ = ["BLOCK_BYTES", "Block", "Blocks", "Cache", "Ranges", "Spot", "is_fetched", "local_copy", "the_cache"]

_COPY_RANGE = 32 << 20
_UNDER_WAY = 4
_PINNED = 128  # copies that a process holds at most: each takes a descriptor
_ABANDONED = 3600  # seconds after which a half-written file counts as abandoned
BLOCK_BYTES = 4 << 20
_IN_ONE_REQUEST = 2  # blocks
_HELD_MAPPED, _HELD_IN_MEMORY = 256, 64  # blocks at hand, where there is a cache on disk and where there is none


class Cache:
    """Files in a folder, together no larger than `limit` bytes, except for what is in use.

    With a limit of 0, nothing that was kept before is read, and whole copies are for one process alone.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self._added: int | None = None  # bytes since the folder was last listed
        self._pins: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, name: str) -> Any:
        """The bytes of a file, mapped; None if it is not there. It counts as used now."""
        if not self.limit:
            return None
        path = self.folder / name
        try:
            with path.open("rb") as file:
                os.utime(file.fileno())
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (FileNotFoundError, ValueError):
            return None

    def add(self, name: str, data: Any) -> None:
        """Keep bytes, unless the disk is full or cannot be written."""
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
        name = f"{name_of(path, status)}{'' if self.limit else f'.{_name_of(os.getpid())}'}.whole"
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

            def copy(start: int) -> None:
                stop = min(start + _COPY_RANGE, status.size)
                _write_all(descriptor, get(path.key, start, stop, status.etag), start)

            starts = range(0, status.size, _COPY_RANGE)
            with Ahead(copy, starts, threads=_UNDER_WAY, ahead=_UNDER_WAY - 1) as copies:
                deque(copies, maxlen=0)
            temporary.rename(self.folder / name)

    def _pin(self, name: str) -> bool:
        """Hold a file so that no process removes it; False if it was removed already."""
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
            Path(name).unlink(missing_ok=True)  # it has been renamed, unless something failed

    def _make_room(self, size: int) -> None:
        """List the folder now and then, so that all processes together keep to the limit."""
        with self._lock:
            is_due = self._added is None or (self._added + size) * 16 > self.limit
            self._added = size if is_due else (self._added or 0) + size
        if is_due:
            self.evict(room=size + self.limit // 16)

    def evict(self, room: int = 0) -> None:
        """Remove what was used longest ago until there is room; one process does it at a time."""
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
    """The name of an object in the cache; another version of it has another name."""
    identity = f"{path}\0{status.etag or status.mtime_ns}\0{status.size}"
    return hashlib.sha256(identity.encode()).hexdigest()[:32]


@lru_cache(maxsize=1)
def _name_of(process: int) -> str:  # noqa: ARG001
    """A name that no other process has, not even one that was forked from this, or that had its number before."""
    return uuid.uuid4().hex[:16]


@lru_cache(maxsize=1)
def the_cache() -> Cache:
    """The cache of this machine: in $BUSHEL_CACHE, of $BUSHEL_CACHE_SIZE."""
    folder = os.environ.get("BUSHEL_CACHE")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Cache(Path(folder) if folder else home / "bushel" / "objects", cache_limit())


def local_copy(path: Path) -> Path:
    """A file on this machine with the same bytes: the path itself, or a copy in the cache."""
    return the_cache().copy_of(path) if isinstance(path, ObjectPath) else path


Block: TypeAlias = tuple[int, int]  # number of the file, and of the block in it


def is_fetched(paths: Sequence[Path]) -> bool:
    """Whether files are fetched in blocks, since they cannot be mapped. Files of both kinds are an error."""
    stored = [isinstance(path, ObjectPath) for path in paths]
    if any(stored) and not all(stored):
        raise FileProblem(paths[0], "files on this machine and objects in a store cannot be one split")
    return any(stored)


class Blocks:
    """Blocks of files in a store, at hand or on their way; those used longest ago are dropped first. Thread-safe.

    A block is a fixed range of a file. Neighbouring blocks come with one request, several requests at a time; each is
    fetched once for all processes of a machine, for as long as the cache has room for it.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = [path for path in paths if isinstance(path, ObjectPath)]
        self._cache = the_cache()
        self.most = 0
        self.keep(True)
        self._held: OrderedDict[Block, Any] = OrderedDict()  # bytes, or a future of those of several blocks
        self._last: Block | None = None  # that was requested
        self._lock = threading.Lock()

    def keep(self, keeps: bool) -> None:
        """Whether to add to the cache: what is read in order, and once, would be written there for nothing."""
        most = min(_HELD_MAPPED, self._cache.limit // (4 * BLOCK_BYTES)) if keeps else 0
        self._keeps, self.most = keeps, max(most, _HELD_IN_MEMORY)

    def get(self, blocks: Sequence[Block]) -> list[Any]:
        """Their bytes; waits for them."""
        asked = self.ask_for(blocks)
        found = [held.result()[block] if isinstance(held, Future) else held for block, held in asked]
        with self._lock:
            for block, held in asked:
                # What is used again is used from the cache: memory of the system, not of this process.
                if (
                    self._keeps
                    and isinstance(held, Future)
                    and (mapped := self._cache.find(self._name(block))) is not None
                ):
                    self._held[block] = mapped
        return found

    def ask_for(self, blocks: Sequence[Block]) -> list[tuple[Block, Any]]:
        """Each block with its bytes, or with the future of a fetch that brings them."""
        with self._lock:
            missing = []
            for block in blocks:
                if block not in self._held:
                    found = self._cache.find(self._name(block))
                    if found is None:
                        missing.append(block)
                        continue
                    self._held[block] = found
                self._held.move_to_end(block)
            for run in map(self._extended, _neighbours(missing)):
                future: Future[dict[Block, Any]] = Future()
                self._held.update(dict.fromkeys(run, future))
                in_background(self._fetch, run, future)
            asked = [(block, self._held[block]) for block in blocks]
            while len(self._held) > self.most:
                self._held.popitem(last=False)
        return asked

    def _extended(self, run: list[Block]) -> list[Block]:
        """Where blocks are requested one after the other, a request brings the next ones too."""
        (shard, number), last = run[0], self._last
        if last == (shard, number - 1):
            count = -(-self._paths[shard].status().size // BLOCK_BYTES)
            following = range(run[-1][1] + 1, min(number + _IN_ONE_REQUEST, count))
            more = takewhile(lambda block: block not in self._held, ((shard, place) for place in following))
            run = [*run, *more]
        self._last = run[-1]
        return run

    def _fetch(self, run: list[Block], future: Future[dict[Block, Any]]) -> None:
        """Neighbouring blocks, with one request. Whoever waits for them does not wait for the cache too."""
        try:
            path = self._paths[run[0][0]]
            status = path.status()
            start, stop = run[0][1] * BLOCK_BYTES, min((run[-1][1] + 1) * BLOCK_BYTES, status.size)
            data = get(path.key, start, stop, status.etag)
        except BaseException as error:
            self.forget(run)  # whoever asks next tries again
            future.set_exception(error)
            return
        found = {block: data[at * BLOCK_BYTES : (at + 1) * BLOCK_BYTES] for at, block in enumerate(run)}
        future.set_result(found)
        for block, piece in found.items() if self._keeps else ():
            self._cache.add(self._name(block), piece)

    def forget(self, blocks: Iterable[Block]) -> None:
        """Fetch them again when they are next needed."""
        for block in blocks:
            with self._lock:
                self._held.pop(block, None)
            self._cache.forget(self._name(block))

    def _name(self, block: Block) -> str:
        path = self._paths[block[0]]
        return f"{name_of(path, path.status())}.{block[1]}"


def _neighbours(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    """Neighbouring blocks, some at a time."""
    for _, group in groupby(enumerate(blocks), lambda pair: (pair[1][0], pair[1][1] - pair[0])):
        run = [block for _, block in group]
        yield from (run[begin : begin + _IN_ONE_REQUEST] for begin in range(0, len(run), _IN_ONE_REQUEST))


Spot: TypeAlias = tuple[int, int]  # number of the file, and where something begins in it
_GAP_BYTES = 64 << 10  # that are fetched along, rather than asking twice


class Ranges:
    """Pieces of files in a store, each fetched alone and given once. Thread-safe.

    For a shuffle over more than a cache holds, where whole blocks would be fetched again and again.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = [path for path in paths if isinstance(path, ObjectPath)]
        self._coming: dict[Spot, tuple[Future[memoryview], int]] = {}  # with the offset of what is fetched
        self._lock = threading.Lock()

    def ask_for(self, spots: Sequence[Spot], sizes: Sequence[int]) -> int:
        """Fetch what is not on its way; how many requests that takes. Pieces that are near each other share one."""
        with self._lock:
            missing = sorted(
                {spot: size for spot, size in zip(spots, sizes, strict=True) if spot not in self._coming}.items()
            )
            runs: list[list[tuple[Spot, int]]] = []
            for spot, size in missing:
                (file, start), before = spot, runs[-1][-1] if runs else ((-1, 0), 0)
                is_near = file == before[0][0] and 0 <= start - before[0][1] - before[1] <= min(_GAP_BYTES, size)
                if is_near and start + size - runs[-1][0][0][1] <= BLOCK_BYTES:
                    runs[-1].append((spot, size))
                else:
                    runs.append([(spot, size)])
            for run in runs:
                (file, start), stop = run[0][0], run[-1][0][1] + run[-1][1]
                future = in_background(self._fetch, file, start, stop)
                self._coming.update({spot: (future, start) for spot, _ in run})
        return len(runs)

    def get(self, spots: Sequence[Spot], sizes: Sequence[int]) -> list[Any]:
        """The bytes of each; waits for them."""
        self.ask_for(spots, sizes)
        with self._lock:
            coming = [self._coming[spot] for spot in spots]
            for spot in spots:
                self._coming.pop(spot, None)
        places = zip(spots, sizes, coming, strict=True)
        return [future.result()[at - start : at - start + size] for (_, at), size, (future, start) in places]

    def _fetch(self, file: int, start: int, stop: int) -> memoryview:
        path = self._paths[file]
        return get(path.key, start, stop, path.status().etag)
