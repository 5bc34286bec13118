"""Processes on this machine, or threads where processes would not be there in time."""

from __future__ import annotations

import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeVar

from bushel.building.engines.worker import BOOT
from bushel.building.progress import Counters, FileCounters
from bushel.errors import BushelError

__all__ = ["LocalEngine"]

T = TypeVar("T")
R = TypeVar("R")

# What tasks import late, in the functions that need it: a worker does so early where this process has it by now.
_IMPORTED_LATE = ("pyarrow", "pyarrow.parquet", "pyarrow.csv", "simplejpeg", "PIL.Image", "bushel.building.tasks.tasks")


class LocalEngine:
    """Processes of their own: no fork, so threads of Arrow and TensorFlow survive it, and no `__main__` guard.

    With `in_threads` the workers are threads: there at once, and as good where the core does nearly all of the work.
    """

    is_remote = False

    def __init__(self, workers: int, *, in_threads: bool = False) -> None:
        self.workers = workers
        self.in_threads = in_threads
        self._crew: list[_Worker] = []
        self._timer: threading.Timer | None = None

    @property
    def is_started(self) -> bool:
        """Whether there are workers."""
        return self.in_threads or bool(self._crew)

    def start(self, *, after: float = 0) -> None:
        """Start the workers in so many seconds, and do not wait for them: they get ready while others plan."""
        if self.workers == 1 or self.in_threads or not sys.executable:
            return
        if after:
            self._timer = threading.Timer(after, self._hire, [self.workers])
            self._timer.daemon = True
            self._timer.start()
        else:
            self._hire(self.workers)

    def _hire(self, wanted: int) -> None:
        self._crew += [_Worker() for _ in range(wanted - len(self._crew))]

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            timer.join()

    def look(self, reads: Sequence[Path], writes: Sequence[Path], versions: Mapping[str, str]) -> None:
        """What this process sees and has, its workers do too."""

    def counters(self, path: Path, tasks: int) -> Counters:
        """A file that all processes map."""
        return FileCounters.make(path, tasks)

    def run(self, work: Callable[[T], R], tasks: Sequence[T], *, memory: int = 0) -> Iterator[R]:  # noqa: ARG002
        """Do the tasks here if one worker is enough, else in processes."""
        self._stop_timer()
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
            finally:  # an error ends the run: what has not begun is not done
                pool.shutdown(wait=True, cancel_futures=True)

    def _in_processes(self, work: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        import cloudpickle

        pickled = cloudpickle.dumps(work)
        waiting = deque(tasks)
        busy: dict[Any, _Worker] = {}
        for worker in self._crew:
            if waiting:
                worker.send(pickled, waiting.popleft())
                busy[worker.connection] = worker
        try:
            while busy:
                for connection in wait(list(busy)):
                    found = busy[connection].receive()
                    if waiting:
                        busy[connection].send(None, waiting.popleft())
                    else:
                        del busy[connection]
                    yield found
        finally:  # those that are still at it would answer to somebody else
            self._crew = [worker for worker in self._crew if worker not in busy.values()]
            for worker in busy.values():
                worker.end()

    def close(self) -> None:
        """End the processes."""
        self._stop_timer()
        for worker in self._crew:
            worker.end()
        self._crew = []


class _Worker:
    """One process, and the connection to it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
            # -P: a file in the current folder must not stand in for a module of the standard library.
            command = [sys.executable, *flags, "-P", "-c", BOOT, str(theirs.fileno())]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
        self.connection: Any = Connection(ours.detach())
        late = [name for name in _IMPORTED_LATE if name in sys.modules]
        with suppress(OSError):  # it ended already: seen when it is to do something
            self.connection.send((sys.argv, sys.path, late))

    def send(self, work: bytes | None, task: Any) -> None:
        """Have it do a task, of the work that was sent last if none is."""
        with suppress(OSError):  # it ended: seen when its answer is waited for
            self.connection.send((work, task))

    def receive(self) -> Any:
        """What became of the task."""
        try:
            value, error, told = pickle.loads(self.connection.recv_bytes())
        except (EOFError, OSError):
            raise _ended(self._process.wait()) from None
        if error is not None:
            raise error from _InWorker(told)
        return value

    def end(self) -> None:
        """End it at once: it does when its connection is closed, unless something holds it."""
        self.connection.close()
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _InWorker(Exception):
    """Where in a worker an error was raised."""

    def __str__(self) -> str:
        return f"in a worker:\n{self.args[0]}"


def _ended(code: int) -> BushelError:
    help = ["Run the same command again to continue, with fewer --workers if memory is short."]
    if code == -signal.SIGKILL:
        said = "a worker was killed, most likely because memory ran out"
    else:
        how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        said = f"a worker ended {how}"
    return BushelError(f"{said}; what is done is kept", help=help)
