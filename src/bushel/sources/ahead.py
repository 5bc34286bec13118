"""Work on several things at once, in order, without running far ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from bushel.records.scan import available_cores

__all__ = ["map_in_threads"]

T = TypeVar("T")
R = TypeVar("R")


def map_in_threads(function: Callable[[T], R], values: Iterable[T]) -> Iterator[tuple[T, R]]:
    """Each value with what the function makes of it, in order; worth it where the function releases the GIL."""
    threads = available_cores()
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[tuple[T, Future[R]]] = deque()
        for value in values:
            waiting.append((value, pool.submit(function, value)))
            if len(waiting) > threads:
                done, future = waiting.popleft()
                yield done, future.result()
        for done, future in waiting:
            yield done, future.result()
