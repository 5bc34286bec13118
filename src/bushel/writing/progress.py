"""How far a build is: workers count into a file that all of them map, and one thread looks at it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

__all__ = ["Progress", "ProgressHandler", "make_counters", "watch"]

_INTERVAL = 0.2  # seconds between two looks


@dataclass(frozen=True)
class Progress:
    """How far one stage is."""

    stage: str  # plan, read, write
    samples: int
    of: int
    bytes: int
    refused: int
    seconds: float  # since the stage began


ProgressHandler: TypeAlias = Callable[[Progress], None]


def make_counters(path: Path, tasks: int) -> None:
    """A file of zeros: samples, bytes and refusals of each task."""
    path.write_bytes(bytes(8 * 3 * max(tasks, 1)))


@contextmanager
def watch(handler: ProgressHandler | None, stage: str, path: Path, *, done: int, of: int) -> Iterator[None]:
    """Tell the handler how far the stage is until it ends; `done` samples were so before it began."""
    if handler is None:
        yield
        return
    counters = np.memmap(path, np.int64, "r").reshape(-1, 3)
    begun, is_over = time.perf_counter(), threading.Event()

    def tell() -> None:
        samples, written, refused = (int(count) for count in counters.sum(axis=0))
        handler(Progress(stage, min(done + samples, of), of, written, refused, time.perf_counter() - begun))

    def look() -> None:
        while not is_over.wait(_INTERVAL):
            tell()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        tell()
