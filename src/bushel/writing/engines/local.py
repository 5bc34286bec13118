"""Processes on this machine."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from bushel.errors import BushelError
from bushel.writing.progress import Counters, FileCounters

__all__ = ["LocalEngine"]

T = TypeVar("T")
R = TypeVar("R")


_LOOK_AT_PARENT = 0.5  # seconds


def _end_with_parent(parent: int) -> None:
    """Let no worker outlive a build that was killed: it would keep its memory, and nobody would end it."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_AT_PARENT)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class LocalEngine:
    """Processes started with loky: no fork, so threads of Arrow and TensorFlow survive it, and no `__main__` guard."""

    is_remote = False

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool: Any = None

    def look(self, reads: Sequence[Path], writes: Path | None, versions: Mapping[str, str]) -> None:
        """What this process sees and has, its workers do too."""

    def counters(self, path: Path, tasks: int) -> Counters:
        """A file that all processes map."""
        return FileCounters.make(path, tasks)

    def run(self, work: Callable[[T], R], tasks: Sequence[T], *, memory: int = 0) -> Iterator[R]:  # noqa: ARG002
        """Do the tasks here if one worker is enough, else in processes."""
        if self.workers == 1 or len(tasks) <= 1:
            yield from map(work, tasks)
            return
        yield from self._in_processes(work, tasks)

    def _in_processes(self, work: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        from loky import ProcessPoolExecutor, as_completed
        from loky.process_executor import TerminatedWorkerError

        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                max_workers=self.workers, initializer=_end_with_parent, initargs=(os.getpid(),)
            )
        futures = [self._pool.submit(work, task) for task in tasks]
        try:
            for future in as_completed(futures):
                yield future.result()
        except TerminatedWorkerError:
            raise BushelError(
                "a worker was killed, most likely because memory ran out; what is done is kept",
                help=["Run the same command again to continue, with fewer --workers if memory is short."],
            ) from None

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, kill_workers=True)
            self._pool = None
