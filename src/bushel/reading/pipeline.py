"""Work done ahead of the consumer: in threads, in order, and never more than a bound."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from bushel.reading.batch import Made, Task

__all__ = ["Threads"]


class Threads:
    """Makes tasks in threads and gives what they made in the order of the tasks."""

    def __init__(self, make: Callable[[Task], Made], tasks: Iterator[Task], *, threads: int, ahead: int) -> None:
        self._make = make
        self._tasks = tasks
        self._ahead = ahead
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="bushel")
        self._coming: deque[Future[Made]] = deque()

    def next(self) -> Made | None:
        """The next that was made; None behind the last. Waits for it if need be."""
        while len(self._coming) < self._ahead and (task := next(self._tasks, None)) is not None:
            self._coming.append(self._pool.submit(self._make, task))
        return self._coming.popleft().result() if self._coming else None

    def close(self) -> None:
        """Drop what is not begun, wait for what is, and end the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._coming.clear()
