"""Work in threads, done ahead of whoever needs it; results come in order."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from itertools import repeat
from typing import Any, Generic, TypeVar

from bushel.errors import BushelError

__all__ = ["Ahead", "available_cores", "in_background", "iterate_ahead", "map_in_threads"]

_THREADS = 16
_END: Any = object()
T = TypeVar("T")
R = TypeVar("R")


class Ahead(Generic[R]):
    """An iterator over what `work` makes of each item, in order, with up to `ahead` more under way.

    Nothing is started before a result is asked for, so an iterator that is dropped stops by itself: the garbage
    collector then ends the threads without taking a lock or waiting for them.
    """

    def __init__(self, work: Callable[[T], R], items: Iterable[T], *, threads: int = 1, ahead: int = 1) -> None:
        self._work: Callable[[Any], R] = work
        self._items: Iterator[Any] = iter(items)
        self._most = ahead + 1
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="bushel")
        self._coming: deque[Future[R]] = deque()

    def __iter__(self) -> Ahead[R]:
        return self

    def start(self) -> None:
        """Begin with the first results before one is asked for."""
        while len(self._coming) < self._most and (item := next(self._items, _END)) is not _END:
            self._coming.append(self._submit(item))

    def _submit(self, item: Any) -> Future[R]:
        try:
            return self._pool.submit(self._work, item)
        except RuntimeError:
            if threading.main_thread().is_alive():
                raise
            raise BushelError(
                "nothing more is made ahead once the program's main thread has ended",
                help=["Wait for the thread that reads at the end of the program: thread.join()"],
            ) from None

    def __next__(self) -> R:
        self.start()
        result = self._coming.popleft().result() if self._coming else _END
        if result is _END:
            raise StopIteration
        return result

    def __enter__(self) -> Ahead[R]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, *, wait: bool = True) -> None:
        """Drop what is not begun, and wait for what is."""
        self._coming.clear()
        self._items = iter(())
        self._pool.shutdown(wait=wait, cancel_futures=True)


def iterate_ahead(values: Iterator[T], ahead: int = 1) -> Ahead[T]:
    """The same values; up to `ahead` more of them are made in a thread before they are asked for."""
    return Ahead(lambda _: next(values, _END), repeat(None), ahead=ahead)


def map_in_threads(function: Callable[[T], R], values: Iterable[T]) -> Ahead[tuple[T, R]]:
    """Each value with the result of the function, in order; worth it where the function releases the GIL."""
    cores = available_cores()
    return Ahead(lambda value: (value, function(value)), values, threads=cores, ahead=cores)


def available_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@lru_cache(maxsize=1)
def _pool(pid: int) -> ThreadPoolExecutor:
    assert pid == os.getpid()
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="bushel-store")


def in_background(call: Callable[..., T], *arguments: Any) -> Future[T]:
    """Call something in one of a few threads that wait for stores."""
    return _pool(os.getpid()).submit(call, *arguments)
