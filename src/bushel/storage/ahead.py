"""An object as a file that is read in order: ranges are asked for ahead, several at a time."""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Any, TypeVar

from bushel.storage import stores
from bushel.storage.stores import Key, Status

__all__ = ["ObjectFile", "in_background"]

_FIRST = 1 << 18  # bytes of the first range; each is twice the one before, up to the last
_LARGEST = 32 << 20
_UNDER_WAY = 3  # ranges ahead of the one that is read
_THREADS = 16
T = TypeVar("T")


@lru_cache(maxsize=1)
def _pool(pid: int) -> ThreadPoolExecutor:
    assert pid == os.getpid()
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="bushel-store")


def in_background(call: Callable[..., T], *arguments: Any) -> Future[T]:
    """Do something in one of a few threads that wait for stores."""
    return _pool(os.getpid()).submit(call, *arguments)


class ObjectFile(io.RawIOBase):
    """An object open to be read. Whoever reads on from where they were, finds the next bytes on their way."""

    def __init__(self, key: Key, status: Status) -> None:
        super().__init__()
        self.name = str(key)
        self.size = status.size
        self._key, self._etag = key, status.etag
        self._at = 0
        self._behind = -1  # the end of the last read
        self._range = _FIRST
        self._coming: deque[tuple[int, int, Future[memoryview]]] = deque()  # start, stop, bytes

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
            piece = self._piece(stop)
            pieces.append(piece)
            self._at += len(piece)
        return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)

    def pieces(self) -> Iterator[tuple[int, memoryview]]:
        """What is left, as it comes in: where it begins, and bytes."""
        while self._at < self.size:
            start, piece = self._at, self._piece(self.size)
            self._at += len(piece)
            yield start, piece

    def read_again(self, start: int, stop: int) -> memoryview:
        """Bytes asked for anew."""
        return stores.get(self._key, start, stop, self._etag)

    def _piece(self, stop: int) -> memoryview:
        """The bytes from where reading stands to the end of a range, or to `stop`."""
        while self._coming and not self._coming[0][0] <= self._at < self._coming[0][1]:
            self._coming.popleft()[2].cancel()
        reads_on = self._at == self._behind
        if not self._coming:
            self._range = self._range if reads_on else _FIRST
            self._ask(self._at, stop - self._at)
        start, end, future = self._coming[0]
        if reads_on or stop > end:  # more will be wanted
            while len(self._coming) <= _UNDER_WAY and self._coming[-1][1] < self.size:
                self._ask(self._coming[-1][1], 0)
        piece = future.result()[self._at - start : stop - start]
        self._behind = self._at + len(piece)
        if self._behind == end:
            self._coming.popleft()
        return piece

    def _ask(self, start: int, size: int) -> None:
        stop = min(start + max(self._range, min(size, _LARGEST)), self.size)
        self._coming.append((start, stop, in_background(stores.get, self._key, start, stop, self._etag)))
        self._range = min(2 * self._range, _LARGEST)

    def close(self) -> None:
        """Ask for no more."""
        for _, _, future in self._coming:
            future.cancel()
        self._coming.clear()
        super().close()
