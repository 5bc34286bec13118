"""How a build runs: its options, where tasks run, the engine of this machine, and progress.

A cluster is another implementation (`bushel.ray.engine`), and nothing else changes.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from bushel.building.output.journal import versions
from bushel.errors import Stopped
from bushel.parallel import Crew, Helpers, Nearby, SharedFolder, WorkerEnded, available_cores
from bushel.plugins import is_address
from bushel.sources.protocol import WALKED, paths_named
from bushel.storage import AnyPath, as_path, check_inside, refuse_links_out
from bushel.storage.file_kinds import suffixes_of
from bushel.transforms import Transform
from bushel.transforms.interface import declared

__all__ = [
    "BuildProgress",
    "Counters",
    "Engine",
    "FileCounters",
    "LocalEngine",
    "ProgressHandler",
    "Run",
    "helpers_of",
    "paths_in",
    "watch",
    "watch_plan",
]


_INTERVAL = 0.2  # seconds between two reports


@dataclass(frozen=True)
class BuildProgress:
    """The progress of one stage."""

    stage: str  # plan, fit (transforms), read (partitions), write (shards)
    samples: int
    of: int  # 0 while unknown, when a plan is being made
    bytes: int
    refused: int
    seconds: float  # since the stage began


ProgressHandler: TypeAlias = Callable[[BuildProgress], None]


class Counters(Protocol):
    """Samples, bytes, refusals and nanoseconds of reading back of each task.

    A value that pickles: workers have one, and so does the build.
    """

    def begin(self, slot: int) -> NDArray[np.int64]:
        """Four zeros for a worker to add to while it does the task with this number."""
        ...

    def end(self, slot: int) -> None:
        """The task is over; its counts stay."""
        ...

    def total(self) -> tuple[int, int, int, int]:
        """The totals over all tasks."""
        ...


@dataclass(frozen=True)
class FileCounters:
    """Counts in a file that all processes of one machine map."""

    path: Path

    @classmethod
    def make(cls, path: Path, tasks: int) -> FileCounters:
        """A file of zeros."""
        path.write_bytes(bytes(8 * 4 * max(tasks, 1)))
        return cls(path)

    def begin(self, slot: int) -> NDArray[np.int64]:
        """The task's own place in the file."""
        counts: NDArray[np.int64] = np.memmap(self.path, np.int64, "r+").reshape(-1, 4)[slot]
        counts[:] = 0
        return counts

    def end(self, slot: int) -> None:
        """Nothing is left to do."""

    def total(self) -> tuple[int, int, int, int]:
        """The sums of what is in the file now."""
        samples, written, refused, reading = np.memmap(self.path, np.int64, "r").reshape(-1, 4).sum(axis=0).tolist()
        return samples, written, refused, reading


@contextmanager
def watch_plan(handler: ProgressHandler | None) -> Iterator[None]:
    """Report to the handler that a plan is being made, until it is done."""
    if handler is None:
        yield
        return
    with _reporting(lambda seconds: handler(BuildProgress("plan", 0, 0, 0, 0, seconds))):
        yield


@contextmanager
def watch(
    handler: ProgressHandler | None, stage: str, counters: Counters, *, done: int, refused: int, of: int
) -> Iterator[None]:
    """Report the progress of a stage to the handler until it ends.

    `done` samples were done and `refused` were refused before it began, possibly in an earlier stage.
    """
    if handler is None:
        yield
        return

    def report(seconds: float) -> None:
        samples, written, more, _ = counters.total()
        handler(BuildProgress(stage, min(done + samples, of), of, written, refused + more, seconds))

    with _reporting(report):
        yield


@contextmanager
def _reporting(report: Callable[[float], None]) -> Iterator[None]:
    """Call a function now and then in a thread, and once at the end, with the seconds since the start.

    An error in the thread ends the calls and is raised at the end.
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


T = TypeVar("T")
R = TypeVar("R")


class Engine(Protocol):
    """Does tasks, in any order and on any number of workers. All of them see the dataset's folder."""

    is_remote: bool  # workers may be on other machines, which must see the source

    def look(self, reads: Sequence[Path], writes: Sequence[SharedFolder], versions: Mapping[str, str]) -> None:
        """Refuse workers that cannot read or write these, or that have other versions."""
        ...

    def counters(self, path: Path, tasks: int) -> Counters:
        """Counters for this many tasks; `path` is a file that may be used for them."""
        ...

    def run(self, work: Callable[[T], R], tasks: Sequence[T], *, memory: int = 0) -> Iterator[R]:
        """Do `work` on every task; yield each result when it is ready. The first error ends the run and is raised.

        A task takes about `memory` bytes: a machine runs no more at a time than it has memory for.
        """
        ...

    def cpu_seconds(self) -> float | None:
        """Processor seconds of the workers, without this process; None if unknown."""
        ...

    def close(self) -> None:
        """End the workers."""
        ...


# Modules that tasks import in functions. A worker imports them early if this process has them.
_IMPORTED_LATE = ("pyarrow", "pyarrow.parquet", "pyarrow.csv", "simplejpeg", "PIL.Image", "bushel.building.tasks")


class LocalEngine:
    """Does tasks in worker processes.

    With `in_threads` the workers are threads: they start at once, and are as fast where the core does nearly all of
    the work. `imports` are modules that workers will need.
    """

    is_remote = False

    def __init__(self, workers: int, *, in_threads: bool = False, imports: Sequence[str] = ()) -> None:
        self.workers = workers
        self.in_threads = in_threads
        self._imports = imports
        self._crew = Crew()
        self._is_over = threading.Event()  # the time in which workers may start by themselves
        self._starter: threading.Thread | None = None

    @property
    def is_started(self) -> bool:
        """Whether there are workers."""
        return self.in_threads or self.has_processes

    @property
    def has_processes(self) -> bool:
        """Whether processes were started."""
        return bool(self._crew.workers)

    def start(self, *, after: float = 0) -> None:
        """Start the workers in `after` seconds without waiting for them: they start up while the plan is made."""
        if self.workers == 1 or self.in_threads or not sys.executable:
            return
        if after:
            self._starter = threading.Thread(target=self._hire_after, args=(after,), name="bushel-starter", daemon=True)
            self._starter.start()
        else:
            self._hire(self.workers)

    def _hire_after(self, seconds: float) -> None:
        """Start the workers after so many seconds of work here, or ten times as many if it mostly waits."""
        # On a busy machine a short build takes long, and is short all the same.
        worked, waited = time.process_time() + seconds, time.perf_counter() + 10 * seconds
        while time.process_time() < worked and time.perf_counter() < waited:
            if self._is_over.wait(seconds / 4):
                return
        self._hire(self.workers)

    def _hire(self, wanted: int) -> None:
        self._crew.hire(wanted, [*self._imports, *(name for name in _IMPORTED_LATE if name in sys.modules)])

    def shrink(self, workers: int) -> None:
        """Keep only so many workers: those that have nothing more to do would keep their memory."""
        self._crew.shrink(workers)

    def _stop_starter(self) -> None:
        self._is_over.set()
        starter, self._starter = self._starter, None
        if starter is not None:
            starter.join()

    def look(self, reads: Sequence[Path], writes: Sequence[SharedFolder], versions: Mapping[str, str]) -> None:
        """Nothing to do: workers see and have what this process does."""

    def counters(self, path: Path, tasks: int) -> Counters:
        """A file that all processes map."""
        return FileCounters.make(path, tasks)

    def run(self, work: Callable[[T], R], tasks: Sequence[T], *, memory: int = 0) -> Iterator[R]:  # noqa: ARG002
        """Do the tasks here if one worker is enough, else in processes."""
        self._stop_starter()
        if self.workers == 1 or len(tasks) <= 1 or not (sys.executable or self.in_threads):
            yield from map(work, tasks)
            return
        if self.in_threads:
            yield from self._in_threads(work, tasks)
            return
        self._hire(min(self.workers, len(tasks)))
        yield from self._in_processes(work, tasks)

    def _in_threads(self, work: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        with ThreadPoolExecutor(min(self.workers, len(tasks))) as pool:
            futures = [pool.submit(work, task) for task in tasks]
            try:
                for future in as_completed(futures):
                    yield future.result()
            finally:  # after an error, tasks that have not begun are dropped
                pool.shutdown(wait=True, cancel_futures=True)

    def _in_processes(self, work: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        try:
            yield from self._crew.run(work, tasks)
        except WorkerEnded as error:
            help = ["Run the same command again, with fewer workers if memory is short."]
            raise Stopped(error.message, help=help) from None

    def cpu_seconds(self) -> float:
        """What the processes had used when each last answered."""
        return self._crew.cpu_seconds()

    def close(self) -> None:
        """End the processes."""
        self._stop_starter()
        self._crew.close()


_TABLES, _TEXTS = frozenset(suffixes_of("table")), frozenset(suffixes_of("text"))
# What workers that read tables import; no code of users that could need pandas runs in them.
_IMPORTS = ("bushel.building.tasks", "pyarrow.csv", "pyarrow.parquet", "bushel.sources.tables.arrow:spare_pandas")
_SMALL_TABLE = 48 << 20  # bytes that can be read before processes would have started
# Seconds after which workers start: once the source is open, or once the build turns out not to be short.
_OPENED, _LONG_PLAN = 0.05, 0.3


@dataclass(frozen=True, kw_only=True)
class Run:
    """How to build. Nothing here changes a byte of the dataset."""

    workers: int | None = None
    max_bad: int | str | None = None
    strict: bool = False
    check: bool = True
    append: bool = False
    overwrite: bool = False
    inside: bool | Sequence[AnyPath] = False  # refuse what leads out of the source, or out of these folders
    engine: Engine | None = None
    progress: ProgressHandler | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers must be at least 1, got {self.workers}")
        self.allowed(0)

    def check_inside(self, source: Mapping[str, Any], transforms: Sequence[Mapping[str, Any]] = ()) -> None:
        """Refuse a source whose paths or links lead out of what the caller named, if the run is to stay inside."""
        if self.inside is False:
            return
        own = paths_named(source)
        roots = own if self.inside is True else list(map(as_path, self.inside))
        files = [path for table in transforms for path in paths_named(table, ("file",)) if self.inside is not True]
        check_inside([*own, *files], roots)
        refuse_links_out(paths_named(source, WALKED), roots)

    @contextmanager
    def hired(
        self, source: Mapping[str, Any] | AnyPath | None, transforms: Sequence[Transform] = ()
    ) -> Iterator[Engine]:
        """The engine, for opening the source and everything after; its workers end with the context.

        Local workers, as many as requested or one per core, start while the source is opened and the plan is made; a
        little later if the build may be short. They are threads if a table is small and the core does all of
        `transforms`. On a cluster, a source is opened once all nodes see it, and all of them look through its files.
        """
        engine = self.engine or self._local(
            _tables_in(source), in_core=all(declared(transform).in_core for transform in transforms)
        )
        try:
            if engine.is_remote:
                engine.look(paths_in(source if isinstance(source, Mapping) else {"path": source}), (), versions())
            yield engine
        finally:
            engine.close()

    def _local(self, tables: list[Path], *, in_core: bool) -> LocalEngine:
        table_bytes = sum(path.stat().st_size for path in tables)
        in_threads = in_core and 0 < table_bytes < _SMALL_TABLE
        imports = _IMPORTS if in_core and any(path.suffix.lower() in _TABLES for path in tables) else ()
        engine = LocalEngine(self.workers or available_cores(), in_threads=in_threads, imports=imports)
        later = _OPENED if self.workers else _LONG_PLAN
        engine.start(after=0 if table_bytes >= _SMALL_TABLE else later)
        return engine

    def allowed(self, samples: int) -> int | None:
        """How many of `samples` may be refused before the build stops; None if all may."""
        if self.strict or self.max_bad is None:
            return 0 if self.strict else None
        text = str(self.max_bad).strip()
        try:
            share = float(text[:-1]) / 100 * samples if text.endswith("%") else int(text)
        except ValueError:
            share = -1
        if share < 0:
            raise ValueError(f"max_bad must be a count or a share such as 0.1%, got {self.max_bad!r}")
        return int(share)


def _tables_in(source: Mapping[str, Any] | AnyPath | None) -> list[Path]:
    """The files of text or tables that a source names; none if it names others."""
    if isinstance(source, Mapping):
        source = source.get("path") if "image_column" not in source else None
    paths = [as_path(source)] if isinstance(source, str | PathLike) and not is_address(source) else []
    return [path for path in paths if path.suffix.lower() in _TABLES | _TEXTS and path.is_file()]


def helpers_of(engine: Engine) -> Helpers:
    """Helpers for looking through many files and rows: a cluster, or workers of this machine that have started."""
    if isinstance(engine, LocalEngine):
        return Nearby(engine.run) if engine.has_processes else None
    return engine.run if engine.is_remote else None


def paths_in(table: Mapping[str, Any]) -> list[Path]:
    """The files, folders and patterns that the table of a source names, and that all nodes must see."""
    return paths_named(table, ("path", "labels", "image_root"))
