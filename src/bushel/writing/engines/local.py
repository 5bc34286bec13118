"""Processes on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bushel.errors import BushelError
from bushel.writing.journal import Outcome
from bushel.writing.tasks import Task

__all__ = ["LocalEngine"]


class LocalEngine:
    """Processes started with loky: no fork, so threads of Arrow and TensorFlow survive it, and no `__main__` guard."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool: Any = None

    def run(self, work: Callable[[Task], Outcome], tasks: Sequence[Task]) -> Iterator[Outcome]:
        """Do the tasks here if one worker is enough, else in processes."""
        if self.workers == 1 or len(tasks) <= 1:
            yield from map(work, tasks)
            return
        yield from self._in_processes(work, tasks)

    def _in_processes(self, work: Callable[[Task], Outcome], tasks: Sequence[Task]) -> Iterator[Outcome]:
        from loky import ProcessPoolExecutor, as_completed
        from loky.process_executor import TerminatedWorkerError

        if self._pool is None:
            self._pool = ProcessPoolExecutor(max_workers=self.workers)
        futures = [self._pool.submit(work, task) for task in tasks]
        try:
            for future in as_completed(futures):
                yield future.result()
        except TerminatedWorkerError:
            raise BushelError(
                "a worker was killed, most likely because memory ran out; what is done is kept",
                help=["Run the same command again to continue, with fewer --workers if memory is short."],
            ) from None
        finally:
            for future in futures:
                future.cancel()

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, kill_workers=True)
            self._pool = None
