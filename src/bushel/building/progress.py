"""The progress of a build: workers count, and one thread reports the counts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Counters", "FileCounters", "Progress", "ProgressHandler", "watch", "watch_plan"]

_INTERVAL = 0.2  # seconds between two looks


@dataclass(frozen=True)
class Progress:
    """How far one stage is."""

    stage: str  # plan, fit (transforms), read (partitions), write (shards)
    samples: int
    of: int  # 0 while that is not known: a plan is being made
    bytes: int
    refused: int
    seconds: float  # since the stage began


ProgressHandler: TypeAlias = Callable[[Progress], None]


class Counters(Protocol):
    """Samples, bytes and refusals of each task. A value that pickles: workers have one, and so has the build."""

    def begin(self, slot: int) -> NDArray[np.int64]:
        """Three zeros, for a worker to add to while it does the task of this number."""
        ...

    def end(self, slot: int) -> None:
        """The task is over: what was counted stays."""
        ...

    def total(self) -> tuple[int, int, int]:
        """Over all tasks."""
        ...


@dataclass(frozen=True)
class FileCounters:
    """Counts in a file that all processes of one machine map."""

    path: Path

    @classmethod
    def make(cls, path: Path, tasks: int) -> FileCounters:
        """A file of zeros."""
        path.write_bytes(bytes(8 * 3 * max(tasks, 1)))
        return cls(path)

    def begin(self, slot: int) -> NDArray[np.int64]:
        """The task's own place in the file."""
        counts: NDArray[np.int64] = np.memmap(self.path, np.int64, "r+").reshape(-1, 3)[slot]
        counts[:] = 0
        return counts

    def end(self, slot: int) -> None:
        """Nothing is left to do."""

    def total(self) -> tuple[int, int, int]:
        """The sums of what is in the file now."""
        samples, written, refused = np.memmap(self.path, np.int64, "r").reshape(-1, 3).sum(axis=0).tolist()
        return samples, written, refused


@contextmanager
def watch_plan(handler: ProgressHandler | None) -> Iterator[None]:
    """Report to the handler that a plan is being made, until it is."""
    if handler is None:
        yield
        return
    with _reporting(lambda seconds: handler(Progress("plan", 0, 0, 0, 0, seconds))):
        yield


@contextmanager
def watch(handler: ProgressHandler | None, stage: str, counters: Counters, *, done: int, of: int) -> Iterator[None]:
    """Report the progress of a stage to the handler until it ends; `done` samples were done before it began."""
    if handler is None:
        yield
        return

    def report(seconds: float) -> None:
        samples, written, refused = counters.total()
        handler(Progress(stage, min(done + samples, of), of, written, refused, seconds))

    with _reporting(report):
        yield


@contextmanager
def _reporting(report: Callable[[float], None]) -> Iterator[None]:
    """Call a function now and then in a thread, and once at the end, with the seconds since the beginning.

    What it raises in the thread ends the calls, and is raised at the end.
    """
    begun, is_over = time.perf_counter(), threading.Event()
    errors: list[BaseException] = []

    def look() -> None:
        while not is_over.wait(_INTERVAL):
            try:
                report(time.perf_counter() - begun)
            except BaseException as error:
                errors.append(error)
                return

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        if errors:
            raise errors[0]
        report(time.perf_counter() - begun)
