"""Bytes of objects on this machine's disk, shared by its processes, up to a size; the least recently used go first.

A file of the cache is written under another name and renamed, and never changed: whoever finds it finds it complete,
and whoever has it open keeps it when it is removed. Two processes that fetch the same bytes both write them; one stays.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import math
import mmap
import os
import tempfile
import threading
import time
import uuid
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import lru_cache
from itertools import groupby, islice, takewhile
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel.errors import FileProblem
from bushel.parallel import REQUESTS, Ahead, in_background
from bushel.storage.objects import ObjectPath
from bushel.storage.stores import Status, cache_limit, get

__all__ = [
    "BLOCK_BYTES",
    "MOST_AT_ONCE",
    "Block",
    "Blocks",
    "Cache",
    "Ranges",
    "Spot",
    "is_fetched",
    "kept_bytes",
    "local_copy",
    "the_cache",
]

_COPY_RANGE = 32 << 20
_UNDER_WAY = 4
_PINNED = 128  # copies that a process holds at most: each takes a descriptor
_ABANDONED = 3600  # seconds after which a half-written file counts as abandoned
BLOCK_BYTES = 4 << 20
MOST_AT_ONCE = 4  # blocks of a request: enough that waiting for an answer takes little of the time
_HELD_MAPPED = 512  # blocks at hand after use, where there is a cache on disk
_HELD_IN_MEMORY = 8  # and where there is none
_requests = threading.Semaphore(REQUESTS)


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

    def has(self, name: str) -> bool:
        """Whether a file is there."""
        return bool(self.limit) and (self.folder / name).exists()

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


def kept_bytes(path: Path, what: str, make: Callable[[], bytes | None]) -> Any:
    """What `make` finds out about a file in a store: kept in the cache for as long as the file is the same one."""
    if not isinstance(path, ObjectPath):
        return make()
    name = f"{name_of(path, path.status())}.{what}"
    kept = the_cache().find(name)
    if kept is None and (made := make()) is not None:
        the_cache().add(name, made)
        kept = the_cache().find(name) or made
    return kept


Block: TypeAlias = tuple[int, int]  # number of the file, and of the block in it


def is_fetched(paths: Sequence[Path]) -> bool:
    """Whether files are fetched in blocks, since they cannot be mapped. Files of both kinds are an error."""
    stored = [isinstance(path, ObjectPath) for path in paths]
    if any(stored) and not all(stored):
        raise FileProblem(paths[0], "files on this machine and objects in a store cannot be one split")
    return any(stored)


class Blocks:
    """Blocks of files in a store, at hand or on their way. Thread-safe.

    A block is a fixed range of a file. Neighbouring blocks come with one request, several requests at a time; each is
    fetched once for all processes of a machine, for as long as the cache has room for it. What is asked for in advance
    stays until it is used; of the others, those used longest ago are dropped first.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = [path for path in paths if isinstance(path, ObjectPath)]
        self._names: dict[int, str] = {}
        self._cache = the_cache()
        self._held: OrderedDict[Block, Any] = OrderedDict()  # bytes, or a future of those of several blocks
        self._awaited: Counter[Block] = Counter()  # those asked for in advance, and by how many
        self._along: set[Block] = set()  # those that came along with others, and were not asked for yet
        self._last: Block | None = None  # that was requested
        self._lock = threading.Lock()
        self.begin(keeps=True, all_fit=False)

    def begin(self, *, keeps: bool, all_fit: bool) -> None:
        """Prepare for other blocks. Whether to add to the cache, and whether it holds all blocks, which are all needed.

        What is read in order, and once, would be written to the cache for nothing.
        """
        self._keeps, self._all_fit = keeps, all_fit
        most = min(_HELD_MAPPED, self._cache.limit // (4 * BLOCK_BYTES)) if keeps else 0
        self.most = max(most, _HELD_IN_MEMORY)
        with self._lock:
            self._awaited.clear()
            self._along.clear()

    def ask_for(self, blocks: Sequence[Block], *, at_once: int = MOST_AT_ONCE) -> int:
        """Have blocks at hand until `get` takes them, up to `at_once` per request; how many requests that takes."""
        with self._lock:
            requests = self._request(blocks, at_once)
            self._awaited.update(blocks)
            return requests

    def get(self, blocks: Sequence[Block]) -> list[Any]:
        """Their bytes; waits for them."""
        with self._lock:
            self._request(blocks)
            asked = [(block, self._held[block]) for block in blocks]
            for block in blocks:
                if self._awaited[block] <= 1:
                    del self._awaited[block]
                else:
                    self._awaited[block] -= 1
            self._drop()
        return [held.result()[block] if isinstance(held, Future) else held for block, held in asked]

    def _request(self, blocks: Sequence[Block], at_once: int = MOST_AT_ONCE) -> int:
        """Find blocks in the cache, and fetch the others, some at once; how many requests that takes."""
        missing, requests = [], 0
        self._along.difference_update(blocks)
        for block in blocks:
            if block not in self._held:
                found = self._cache.find(self._name(block))
                if found is None:
                    missing.append(block)
                    continue
                self._held[block] = found
            self._held.move_to_end(block)
        for run in _neighbours(missing, at_once):
            left = [block for block in run if block not in self._held]  # the others came along with another run
            for part in (self._extended(some, at_once) for some in _neighbours(left, at_once)):
                future: Future[dict[Block, Any]] = Future()
                self._held.update(dict.fromkeys(part, future))
                self._along |= {*part} - {*blocks} if not self._all_fit else set()
                in_background(self._fetch, part, future)
                requests += 1
        return requests

    def _drop(self) -> None:
        """Drop what was used longest ago, unless somebody waits for it."""
        excess = len(self._held) - len(self._awaited) - len(self._along) - self.most
        if excess > 0:
            idle = (block for block in self._held if block not in self._awaited and block not in self._along)
            for block in list(islice(idle, excess)):
                del self._held[block]

    def _extended(self, run: list[Block], at_once: int) -> list[Block]:
        """More blocks for a request: the next ones if it continues the last, and those around it if all are needed."""
        (shard, number), last = run[0], self._last
        count = -(-self._paths[shard].status().size // BLOCK_BYTES)
        if self._all_fit:
            first = number - number % at_once
            before = range(number - 1, first - 1, -1)
            after = range(run[-1][1] + 1, min(first + at_once, count))
            run = [*reversed(self._missing(shard, before)), *run, *self._missing(shard, after)]
        elif last == (shard, number - 1):
            run = [*run, *self._missing(shard, range(run[-1][1] + 1, min(number + at_once, count)))]
        self._last = run[-1]
        return run

    def _missing(self, shard: int, numbers: Iterable[int]) -> list[Block]:
        """Blocks that are not at hand, up to the first that is."""
        blocks = ((shard, number) for number in numbers)
        return list(takewhile(lambda b: b not in self._held and not self._cache.has(self._name(b)), blocks))

    def _fetch(self, run: list[Block], future: Future[dict[Block, Any]]) -> None:
        """Neighbouring blocks, with one request. Whoever waits for them does not wait for the cache too."""
        try:
            path = self._paths[run[0][0]]
            status = path.status()
            start, stop = run[0][1] * BLOCK_BYTES, min((run[-1][1] + 1) * BLOCK_BYTES, status.size)
            with _requests:
                data = get(path.key, start, stop, status.etag)
        except BaseException as error:
            self.forget(run)  # whoever asks next tries again
            future.set_exception(error)
            return
        found = {block: data[at * BLOCK_BYTES : (at + 1) * BLOCK_BYTES] for at, block in enumerate(run)}
        future.set_result(found)
        for block, piece in found.items() if self._keeps else ():
            self._cache.add(self._name(block), piece)
            # What is used again is used from the cache: memory of the system, not of this process.
            mapped = self._cache.find(self._name(block))
            with self._lock:
                if mapped is not None and self._held.get(block) is future:
                    self._held[block] = mapped

    def forget(self, blocks: Iterable[Block]) -> None:
        """Fetch them again when they are next needed."""
        for block in blocks:
            with self._lock:
                self._held.pop(block, None)
                self._along.discard(block)
            self._cache.forget(self._name(block))

    def _name(self, block: Block) -> str:
        if (name := self._names.get(block[0])) is None:
            path = self._paths[block[0]]
            name = self._names[block[0]] = name_of(path, path.status())
        return f"{name}.{block[1]}"


def _neighbours(blocks: Iterable[Block], most: int) -> Iterator[list[Block]]:
    """Neighbouring blocks, at most so many at a time."""
    for _, group in groupby(enumerate(blocks), lambda pair: (pair[1][0], pair[1][1] - pair[0])):
        run = [block for _, block in group]
        yield from (run[begin : begin + most] for begin in range(0, len(run), most))


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
        with _requests:
            return get(path.key, start, stop, path.status().etag)


class ArrayInStore:
    """An array in a .npy object, of which only the blocks that are indexed come to this machine. Thread-safe.

    It takes slices, numbers and arrays of numbers along its first axis, as NumPy does.
    """

    def __init__(self, path: ObjectPath) -> None:
        size = path.status().size
        head = io.BytesIO(get(path.key, 0, min(size, _NPY_HEAD), path.status().etag))
        np.lib.format.read_magic(head)
        self.shape, _, self.dtype = np.lib.format.read_array_header_1_0(head)
        self._start, self._row = head.tell(), self.dtype.itemsize * math.prod(self.shape[1:])
        self._blocks = Blocks([path])

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, wanted: Any) -> Any:
        if isinstance(wanted, slice):
            begin, end, step = wanted.indices(len(self))
            return self._rows(begin, max(begin, end))[::step] if step > 0 else self[:][wanted]
        numbers = np.asarray(wanted)
        if numbers.ndim == 0:
            return self._rows(int(numbers), int(numbers) + 1)[0]
        return self._at(np.flatnonzero(numbers) if numbers.dtype == bool else numbers)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        rows = self[:]
        return rows if dtype is None else rows.astype(dtype)  # type: ignore[no-any-return]

    def _rows(self, begin: int, end: int) -> NDArray[Any]:
        first, stop = self._start + begin * self._row, self._start + end * self._row
        numbers = range(first // BLOCK_BYTES, -(-stop // BLOCK_BYTES)) if stop > first else range(0)
        rows = np.empty((end - begin, *self.shape[1:]), self.dtype)
        memory, filled = rows.reshape(-1).view(np.uint8), 0
        for at in range(0, len(numbers), REQUESTS):  # not more in memory than that
            some = numbers[at : at + REQUESTS]
            for number, data in zip(some, self._blocks.get([(0, number) for number in some]), strict=True):
                base = number * BLOCK_BYTES
                piece = np.frombuffer(data, np.uint8)[max(0, first - base) : stop - base]
                memory[filled : filled + len(piece)] = piece
                filled += len(piece)
        return rows

    def _at(self, numbers: NDArray[Any]) -> NDArray[Any]:
        found = np.empty((len(numbers), *self.shape[1:]), self.dtype)
        step = BLOCK_BYTES // self._row
        owners = numbers // step
        for owner in np.unique(owners).tolist():
            here = np.flatnonzero(owners == owner)
            rows = self._rows(owner * step, min((owner + 1) * step, len(self)))
            found[here] = rows[numbers[here] - owner * step]
        return found


_NPY_HEAD = 256  # bytes in which the header of such a file ends


def map_array(path: Path) -> NDArray[Any]:
    """An array in a .npy file, mapped; of one in a store, a copy on this machine is."""
    with local_copy(path).open("rb", buffering=0) as file:
        # Much faster than `np.load`, and a build maps several files per partition and shard.
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    start = 10 + int.from_bytes(memory[8:10], "little")
    shape, dtype = _npy_layout(memory[:start])
    count = math.prod(shape)
    return np.frombuffer(memory, dtype, count, start).reshape(shape) if count else np.empty(shape, dtype)


@lru_cache(maxsize=256)
def _npy_layout(head: bytes) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and type that the header of a .npy file says."""
    file = io.BytesIO(head)
    np.lib.format.read_magic(file)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    return shape, dtype


def find_array(path: Path) -> Any:
    """An array in a .npy file, mapped; one in a store is read where it is indexed."""
    return ArrayInStore(path) if isinstance(path, ObjectPath) else map_array(path)
