"""Work in parallel: in threads, ahead of need, in processes, and on the workers of a cluster."""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import queue
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import repeat
from multiprocessing.connection import wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from bushel import _native
from bushel.errors import BushelError

__all__ = [
    "REQUESTS",
    "Ahead",
    "Crew",
    "Helpers",
    "Nearby",
    "SharedFolder",
    "Stopwatch",
    "Template",
    "Timing",
    "Worker",
    "WorkerEnded",
    "available_cores",
    "do_all",
    "fork_on_request",
    "in_background",
    "iterate_ahead",
    "map_in_threads",
    "own_seconds",
    "serve",
]


REQUESTS = 16  # to stores, at a time
_THREADS = REQUESTS + 8  # that wait for stores, or write what has come
_END: Any = object()
T = TypeVar("T")
R = TypeVar("R")


class Ahead(Generic[R]):
    """An iterator over the results of `work` for each item, in order, with up to `ahead` more under way.

    Nothing starts before a result is requested, so an iterator that is dropped stops by itself: the garbage collector
    then ends the threads without taking a lock or waiting for them.
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
        """Start on the first results before one is requested."""
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
        """Drop work that has not begun, and wait for the rest."""
        self._coming.clear()
        self._items = iter(())
        self._pool.shutdown(wait=wait, cancel_futures=True)


def iterate_ahead(values: Iterator[T], ahead: int = 1) -> Ahead[T]:
    """The same values; up to `ahead` more of them are made in a thread before they are requested."""
    return Ahead(lambda _: next(values, _END), repeat(None), ahead=ahead)


def map_in_threads(
    function: Callable[[T], R], values: Iterable[T]
) -> Ahead[tuple[T, R]] | Generator[tuple[T, R], None, None]:
    """Each value with the result of the function, in order; worth it if the function releases the GIL."""
    cores = available_cores()
    if cores == 1:
        return ((value, function(value)) for value in values)
    return Ahead(lambda value: (value, function(value)), values, threads=cores, ahead=cores)


_here = SimpleNamespace(is_one_of_many=False)  # what is true of this process


def available_cores() -> int:
    """How many cores this process may use: one, if it is one of many workers."""
    if _here.is_one_of_many:
        return 1
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


# Only the standard library until the paths of the parent process are known.
_BOOT = (
    "import pickle, socket, struct, sys; link = socket.socket(fileno=int(sys.argv[1])); "
    "size, = struct.unpack('<Q', link.recv(8, socket.MSG_WAITALL)); "
    "sys.argv[:], sys.path[:], modules, main = pickle.loads(link.recv(size, socket.MSG_WAITALL)); "
    "from bushel import parallel; getattr(parallel, main)(link, modules)"
)
_HEADER = struct.Struct("<QI")  # size of the pickle, number of buffers
_REQUEST = struct.Struct("<cQ")  # to a template: its kind, and the number of a process that it forked
_RUNS = 1 << 32  # no exit code
_ALIGNMENT = 64


def _start(main: str, modules: Sequence[str]) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Start Python in a new process without a fork, so that threads of Arrow and TensorFlow survive."""
    link, theirs = socket.socketpair()
    with theirs:
        flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        # -P: a file in the current folder must not stand in for a module of the standard library.
        command = [sys.executable, *flags, "-P", "-c", _BOOT, str(theirs.fileno())]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
    data = pickle.dumps((sys.argv, sys.path, modules, main))
    with suppress(OSError):  # it ended already: noticed when its first answer is awaited
        link.sendall(struct.pack("<Q", len(data)) + data)
    return link, process


class Template:
    """A process that imports `modules` once and forks workers, which then start in milliseconds.

    It never starts a thread, so forking it is safe. On systems where it is not, every worker is a new process.
    """

    can_fork = sys.platform == "linux"

    def __init__(self, modules: Sequence[str] = ()) -> None:
        self._modules = modules
        self._forked = 0
        if self.can_fork:
            self._link, self._process = _start("fork_on_request", modules)

    def worker(self) -> Worker:
        """Start a worker, without waiting for it."""
        if not self.can_fork:
            return Worker(self._modules)
        link, theirs = socket.socketpair()
        with theirs, suppress(OSError):  # the template ended: noticed when the worker's answer is awaited
            socket.send_fds(self._link, [_REQUEST.pack(b"f", self._forked)], [theirs.fileno()])
        self._forked += 1
        return Worker(started=(link, _Forked(self, self._forked - 1)))

    def ask(self, request: bytes, number: int) -> int:
        """Ask about the process that it forked as this number: see `fork_on_request`."""
        try:
            self._link.sendall(_REQUEST.pack(request, number))
            return int(struct.unpack("<q", _read(self._link, 8))[0])
        except (EOFError, OSError):  # the template was killed, and without it its workers end
            return -signal.SIGKILL

    def end(self) -> None:
        """End it, after its workers."""
        if self.can_fork:
            self._link.close()
            self._process.wait()


class _Forked:
    """A process that a template forked, with the methods of `subprocess.Popen` that a worker needs."""

    def __init__(self, template: Template, number: int) -> None:
        self._template, self._number = template, number
        self.returncode: int | None = None

    @property
    def pid(self) -> int:
        return self._template.ask(b"i", self._number)

    def wait(self, timeout: float | None = None) -> int:
        begun = time.monotonic()
        while self.returncode is None:
            code = self._template.ask(b"p", self._number)
            self.returncode = None if code == _RUNS else code
            if timeout is not None and self.returncode is None and time.monotonic() - begun > timeout:
                raise subprocess.TimeoutExpired("worker", timeout)
            time.sleep(0.001 if self.returncode is None else 0)
        return self.returncode

    def kill(self) -> None:
        self._template.ask(b"k", self._number)


def fork_on_request(link: socket.socket, modules: Sequence[str]) -> None:
    """Be a template: fork a worker (f), or tell the id (i) or exit code (p) of one, or kill it (k)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_all(modules)
    gc.collect()
    gc.freeze()  # what the collector touches would be copied in every worker
    forked: list[int] = []
    codes: dict[int, int] = {}
    while True:
        request, files, _, _ = socket.recv_fds(link, _REQUEST.size, 1)
        if not request:
            return
        kind, number = _REQUEST.unpack(request + _read(link, _REQUEST.size - len(request)))
        if kind == b"f":
            forked.append(_fork(link, files[0]))
            continue
        if kind == b"p" and number not in codes:
            pid, status = os.waitpid(forked[number], os.WNOHANG)
            if pid:
                codes[number] = os.waitstatus_to_exitcode(status)
        if kind == b"k" and number not in codes:
            os.kill(forked[number], signal.SIGKILL)
        answers = {b"i": forked[number], b"p": codes.get(number, _RUNS), b"k": 0}
        link.sendall(struct.pack("<q", answers[kind]))


def _fork(link: socket.socket, file: int) -> int:
    pid = os.fork()
    if pid:
        os.close(file)
        return pid
    _here.is_one_of_many = True
    try:
        link.close()
        serve(socket.socket(fileno=file), ())
    finally:  # whatever happens, it does not go on as a second template
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(1)


class Worker:
    """One process that does tasks; programs that use it need no `__main__` guard.

    `modules` are imported early, while it waits for its first task.
    """

    def __init__(self, modules: Sequence[str] = (), *, started: tuple[socket.socket, _Forked] | None = None) -> None:
        self.process: subprocess.Popen[bytes] | _Forked
        self._link, self.process = started or _start("serve", modules)
        self.cpu_seconds = 0.0  # that it had used when it last answered

    def fileno(self) -> int:
        """The descriptor of its socket, so that a caller can wait for several workers."""
        return self._link.fileno()

    def send(self, work: bytes | None, task: Any) -> None:
        """Give it a task. `work` is pickled, or None for the work that was sent last."""
        with suppress(OSError):  # it ended: noticed when its answer is awaited
            # The task is pickled separately: an error in loading it is its answer.
            _send(self._link, (work, pickle.dumps(task)))

    def receive(self) -> Any:
        """The result of the task. Raises the error that it raised, or `WorkerEnded`."""
        try:
            (value, error, trace), self.cpu_seconds = _receive(self._link)
        except (EOFError, OSError):
            raise WorkerEnded(self.process.wait()) from None
        if error is not None:
            raise error from _InWorker(trace)
        return value

    def hang_up(self) -> None:
        """Let it end, without waiting: it does when its socket is closed, unless something holds it."""
        self._link.close()

    def end(self) -> None:
        """End it at once."""
        self.hang_up()
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Crew:
    """Workers that do tasks together, forked from one template."""

    def __init__(self) -> None:
        self.workers: list[Worker] = []
        self._template: Template | None = None
        self._ended_cpu_seconds = 0.0

    def hire(self, wanted: int, modules: Sequence[str] = ()) -> None:
        """Have this many workers, without waiting for them; `modules` are imported before the first is forked."""
        self._template = self._template or Template(modules)
        self.workers += [self._template.worker() for _ in range(wanted - len(self.workers))]

    def run(self, work: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        """Do `work` on every task; yield each result when it is ready. The first error ends the run and is raised."""
        import cloudpickle

        pickled = cloudpickle.dumps(work)
        waiting = deque(tasks)
        busy: list[Worker] = []
        for worker in self.workers[: len(waiting)]:
            worker.send(pickled, waiting.popleft())
            busy.append(worker)
        try:
            while busy:
                done: Any
                for done in wait(busy):  # type: ignore[arg-type] # anything with a fileno
                    found = done.receive()
                    if waiting:
                        done.send(None, waiting.popleft())
                    else:
                        busy.remove(done)
                    yield found
        finally:  # those that still work would answer the next question
            self._dismiss(busy)

    def shrink(self, workers: int) -> None:
        """Keep only so many workers; none of them may have a task."""
        self._dismiss(self.workers[workers:])

    def _dismiss(self, workers: Sequence[Worker]) -> None:
        self.workers = [worker for worker in self.workers if worker not in workers]
        for worker in workers:
            worker.hang_up()  # all of them, before one is waited for
        for worker in workers:
            self._ended_cpu_seconds += worker.cpu_seconds
            worker.end()

    def cpu_seconds(self) -> float:
        """What the workers have used until each answered last."""
        return self._ended_cpu_seconds + sum(worker.cpu_seconds for worker in self.workers)

    def close(self) -> None:
        """End all of them."""
        self._dismiss(self.workers)
        if self._template is not None:
            self._template.end()
            self._template = None


def own_seconds() -> float:
    """A clock that stands still while this thread could run but other programs do, where the system says so."""
    try:
        waited = int(Path("/proc/thread-self/schedstat").read_bytes().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        waited = 0.0
    return time.perf_counter() - waited


class Timing(msgspec.Struct, frozen=True):
    """How long one stage took, and how many cores it kept busy on average; None if workers are on other machines."""

    seconds: float
    cores: float | None

    def __str__(self) -> str:
        return f"{self.seconds:8.2f} s" + ("" if self.cores is None else f"  {self.cores:5.1f} cores busy")


class Stopwatch:
    """Times the stages of some work. `cpu_seconds` returns what its workers have used so far, if that is known."""

    def __init__(self, cpu_seconds: Callable[[], float | None] = lambda: 0.0) -> None:
        self._workers = cpu_seconds
        self._spent: dict[str, tuple[float, float]] = {}
        self._is_known = True

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what runs inside; a stage that comes again adds to its time."""
        begun, used = time.perf_counter(), self._used()
        try:
            yield
        finally:
            seconds, cpu = self._spent.get(name, (0.0, 0.0))
            self._spent[name] = seconds + time.perf_counter() - begun, cpu + self._used() - used

    def _used(self) -> float:
        of_workers = self._workers()
        self._is_known = self._is_known and of_workers is not None
        return time.process_time() + (of_workers or 0.0)

    def add(self, name: str, of: str, seconds: float) -> None:
        """Move `seconds` of work on one core out of the stage in which they were spent, into a stage of their own."""
        wall, cpu = self._spent.get(of, (0.0, 0.0))
        share = min(1.0, seconds / cpu) if cpu else 0.0
        self._spent[of] = wall * (1 - share), cpu * (1 - share)
        self._spent[name] = wall * share, cpu * share

    def timings(self) -> dict[str, Timing]:
        """The stages in their order."""
        return {
            name: Timing(seconds, cpu / max(seconds, 1e-9) if self._is_known else None)
            for name, (seconds, cpu) in self._spent.items()
        }


class _InWorker(Exception):
    """Where in a worker an error was raised."""

    def __str__(self) -> str:
        return f"in a worker:\n{self.args[0]}"


class WorkerEnded(BushelError):
    """A worker that ended before its task was done."""

    def __init__(self, code: int) -> None:
        if code == -signal.SIGKILL:
            super().__init__("a worker was killed, most likely because memory ran out")
        else:
            how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
            super().__init__(f"a worker ended {how}")


def serve(link: socket.socket, modules: Sequence[str]) -> None:
    """Be a worker: do what is sent until the socket is closed, then end at once, even during a task."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the process that started this one
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(link, messages), daemon=True).start()
    _import_all(modules)
    work: Any = None
    while True:
        pickled, task = messages.get()
        answer: tuple[Any, BaseException | None, str]
        try:
            work = work if pickled is None else pickle.loads(pickled)
            answer = (work(pickle.loads(task)), None, "")
        except BaseException as error:  # whatever it is, the process that waits must know
            answer = (None, error, traceback.format_exc())
        try:
            _answer(link, answer)
        except OSError:
            sys.exit(1)


def _import_all(modules: Sequence[str]) -> None:
    """Import modules that are there; of `module:function`, call the function too."""
    for name in modules:
        module, _, function = name.partition(":")
        with suppress(ImportError):
            imported = importlib.import_module(module)
            if function:
                getattr(imported, function)()


def _listen(link: socket.socket, messages: queue.SimpleQueue[Any]) -> None:
    # A worker that outlives the process it works for would keep its memory, and nobody would end it.
    try:
        while True:
            messages.put(_receive(link))
    except (EOFError, OSError):
        os._exit(1)


def _answer(link: socket.socket, answer: tuple[Any, BaseException | None, str]) -> None:
    value, error, trace = answer
    try:
        if error is not None:
            pickle.loads(pickle.dumps(error))
        _send(link, (answer, time.process_time()))
    except OSError:
        raise
    except Exception:
        what = f"{type(error).__name__}: {error}" if error else f"{type(value).__name__} cannot be sent back"
        _send(link, ((None, RuntimeError(what), trace), time.process_time()))


def _send(link: socket.socket, value: Any) -> None:
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    if not buffers:
        link.sendall(_HEADER.pack(len(data), 0) + data)
        return
    views = [buffer.raw() for buffer in buffers]
    file = _anonymous_file()
    try:
        for view in views:
            _write_all(file, view)
            os.lseek(file, -view.nbytes % _ALIGNMENT, os.SEEK_CUR)
        os.ftruncate(file, max(1, os.lseek(file, 0, os.SEEK_CUR)))
        socket.send_fds(link, [_HEADER.pack(len(data), len(views))], [file])
        link.sendall(struct.pack(f"<{len(views)}Q", *(view.nbytes for view in views)) + data)
    finally:
        os.close(file)


def _receive(link: socket.socket) -> Any:
    """Receive what `_send` sent; arrays stay in the file, which disappears with them."""
    header, files, _, _ = socket.recv_fds(link, _HEADER.size, 1)
    size, count = _HEADER.unpack(header + _read(link, _HEADER.size - len(header)))
    buffers: list[memoryview] = []
    if count:
        sizes = struct.unpack(f"<{count}Q", _read(link, 8 * count))
        # Mapped by the core, which keeps no file open: keeping a batch must not cost a descriptor.
        memory: Any = _native.Mapping([(f"/dev/fd/{files[0]}", os.fstat(files[0]).st_size)], True).memory
        os.close(files[0])
        at = 0
        for length in sizes:
            buffers.append(memoryview(memory[at : at + length]))
            at += length + -length % _ALIGNMENT
    return pickle.loads(_read(link, size), buffers=buffers)


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("bushel")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _write_all(file: int, view: memoryview) -> None:
    while view:
        view = view[os.write(file, view) :]


def _read(link: socket.socket, size: int) -> bytes:
    pieces, left = [], size
    while left:
        piece = link.recv(min(left, 1 << 20))
        if not piece:
            raise EOFError
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


# Does work on every part; the results may come in any order. None if there are no helpers.
Helpers: TypeAlias = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]] | None


@dataclass(frozen=True)
class Nearby:
    """Helpers on this machine, whose cores threads of this process can use just as well."""

    run: Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]

    def __call__(self, work: Callable[[Any], Any], parts: Sequence[Any]) -> Iterable[Any]:
        """Do the work on every part."""
        return self.run(work, parts)


class SharedFolder(NamedTuple):
    """A folder that all machines of a cluster must be able to write to."""

    folder: Path
    shown: Path  # the part of it that the user knows
    help: str  # how to make it one


def do_all(helpers: Helpers, work: Callable[[T], R], parts: Sequence[T]) -> list[R]:
    """Do the work on every part; the results are in the order of the parts."""
    if helpers is None or len(parts) < 2:
        return [work(part) for part in parts]
    found: dict[int, R] = dict(helpers(partial(_numbered, work), list(enumerate(parts))))
    return [found[number] for number in range(len(parts))]


def _numbered(work: Callable[[T], R], part: tuple[int, T]) -> tuple[int, R]:
    return part[0], work(part[1])
