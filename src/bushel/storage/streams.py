"""An object as a file: what is read in order comes as a stream, on its way before it is asked for."""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from queue import Empty, Full, Queue
from threading import Event, Lock, Thread
from typing import Any, TypeVar

from bushel.storage import stores
from bushel.storage.stores import Key, Status

__all__ = ["ObjectFile", "in_background"]

FIRST_BYTES = 1 << 18  # of a read that may be the only one
SMALL_BYTES = 4 << 20  # left of an object that one request fetches
SEGMENT_BYTES = 160 << 20  # of a stream: a shard of the usual size; a larger object is several at the same time
_STREAMS = 4
_WAITING = 8  # pieces of a stream that wait to be read
_THREADS = 16
_LOOK = 0.5  # seconds after which a stream looks whether it is still wanted
T = TypeVar("T")


@lru_cache(maxsize=1)
def _pool(pid: int) -> ThreadPoolExecutor:
    assert pid == os.getpid()
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="bushel-store")


def in_background(call: Callable[..., T], *arguments: Any) -> Future[T]:
    """Do something in one of a few threads that wait for stores."""
    return _pool(os.getpid()).submit(call, *arguments)


class _Segment:
    """A part of an object that comes in a thread of its own, a few pieces ahead of its reader."""

    def __init__(self, key: Key, start: int, stop: int, status: Status) -> None:
        self._pieces: Queue[memoryview | BaseException | None] = Queue(_WAITING)
        self._is_over = Event()
        Thread(target=self._run, args=(key, start, stop, status), daemon=True).start()

    def _run(self, key: Key, start: int, stop: int, status: Status) -> None:
        try:
            for piece in stores.stream(key, start, stop, status):
                if not self._put(piece):
                    return
            self._put(None)
        except BaseException as error:
            self._put(error)

    def _put(self, piece: memoryview | BaseException | None) -> bool:
        while not self._is_over.is_set():
            try:
                self._pieces.put(piece, timeout=_LOOK)
            except Full:
                continue
            return True
        return False

    def next(self) -> memoryview | None:
        """The next piece; None behind the last."""
        piece = self._pieces.get()
        if isinstance(piece, BaseException):
            raise piece
        return piece

    def close(self) -> None:
        """Let the thread end."""
        self._is_over.set()
        while True:
            try:
                self._pieces.get_nowait()
            except Empty:
                return


class _Stream:
    """The rest of an object, from some place on."""

    def __init__(self, key: Key, start: int, status: Status) -> None:
        self.at = start
        self._told = (key, status)
        self._starts = iter(range(start, status.size, SEGMENT_BYTES))
        self._coming: deque[_Segment] = deque()

    def next(self) -> memoryview:
        """The piece that begins at `at`."""
        key, status = self._told
        while True:
            while len(self._coming) < _STREAMS and (start := next(self._starts, None)) is not None:
                self._coming.append(_Segment(key, start, min(start + SEGMENT_BYTES, status.size), status))
            piece = self._coming[0].next()
            if piece is not None:
                self.at += len(piece)
                return piece
            self._coming.popleft()

    def close(self) -> None:
        """Ask for no more."""
        for segment in self._coming:
            segment.close()


class ObjectFile(io.RawIOBase):
    """An object open to be read. Whoever reads on from where they were, finds the next bytes on their way.

    `in_order` says that all of it is going to be read, so that the first bytes come with the others.
    """

    def __init__(self, key: Key, status: Status, *, in_order: bool = False) -> None:
        super().__init__()
        self._in_order = in_order
        self.name = str(key)
        self.size = status.size
        self.key, self.etag, self._status = key, status.etag, status
        self._at = 0
        self._behind = -1  # the end of the last read
        self._held, self._held_at = memoryview(b""), 0
        self._stream: _Stream | None = None

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Read on from elsewhere."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; it stays unfilled only at the end."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        """All that is left."""
        return self.read(-1)

    def read(self, size: int | None = -1) -> bytes:
        """So many bytes; fewer only at the end."""
        stop = self.size if size is None or size < 0 else min(self._at + size, self.size)
        pieces = []
        while self._at < stop:
            pieces.append(self._piece(stop))
        return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)

    def pieces(self) -> Iterator[tuple[int, memoryview]]:
        """What is left, as it comes in: where it begins, and bytes."""
        while self._at < self.size:
            yield self._at, self._piece(self.size)

    def forget(self) -> None:
        """Read on with bytes that are asked for anew."""
        self._held = memoryview(b"")
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def read_again(self, start: int, stop: int) -> memoryview:
        """Bytes asked for anew."""
        return stores.get(self.key, start, stop, self.etag)

    def _piece(self, stop: int) -> memoryview:
        """Bytes from where reading stands, to `stop` or fewer; reading then stands behind them."""
        if not self._held_at <= self._at < self._held_at + len(self._held):
            self._held_at, self._held = self._at, self._fetch(stop)
        piece = self._held[self._at - self._held_at : stop - self._held_at]
        self._at += len(piece)
        self._behind = self._at
        return piece

    def _fetch(self, stop: int) -> memoryview:
        if self._stream is not None and self._stream.at != self._at:
            self._stream.close()
            self._stream = None
        left = self.size - self._at
        if self._stream is None:
            reads_on = self._in_order or self._at == self._behind or stop - self._at > FIRST_BYTES
            if left <= SMALL_BYTES and reads_on:
                return stores.get(self.key, self._at, self.size, self.etag)
            if not reads_on:
                return stores.get(self.key, self._at, self._at + min(left, FIRST_BYTES), self.etag)
            self._stream = _Stream(self.key, self._at, self._status)
        return self._stream.next()

    def close(self) -> None:
        """Ask for no more."""
        self.forget()
        super().close()


_parked: list[tuple[Key, str, ObjectFile]] = []  # at most one: what was looked at last, and is most likely read next
_parking = Lock()


def open_in_order(key: Key, status: Status) -> ObjectFile:
    """An object to be read from its beginning; the one that was parked, if it is that."""
    with _parking:
        parked = _parked.pop() if _parked else None
    if parked is not None and parked[:2] == (key, status.etag) and not parked[2].closed:
        parked[2].seek(0)
        return parked[2]
    if parked is not None:
        parked[2].close()
    return ObjectFile(key, status, in_order=True)


def park(file: ObjectFile) -> None:
    """Keep a file whose first bytes were looked at for whoever reads it next: their request is under way."""
    with _parking:
        old = [parked[2] for parked in _parked]
        _parked[:] = [(file.key, file.etag, file)]
    for other in old:
        other.close()
