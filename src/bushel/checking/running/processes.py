"""The process in which a script runs: started afresh or forked from a warm one, watched, and ended at its limits."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Protocol

POLL_SECONDS = 0.1
AFTER_LIMIT = 5.0  # seconds in which the script's process may still write down what it saw
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
SERVE = "serve"  # in place of a job
_HAS_PROC = os.path.isdir("/proc/self")  # elsewhere time is that of the clock
_CHILD = [sys.executable, "-m", "bushel.checking.running.child"]


@dataclass(frozen=True)
class ExecutionLimits:
    """What a run may take. Processor time counts, of all that a script starts: a busy machine changes nothing."""

    seconds: float = 180.0  # of processor time
    bytes: int = 8 << 30
    idle: float = 120.0  # seconds in which nothing is computed


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int | None
    stopped: str | None = None  # the limit that ended it: time, memory, idle
    seconds: float = 0.0  # of processor time


class RunningProcess(Protocol):
    """A process, as `subprocess.Popen` has it."""

    pid: int

    def poll(self) -> int | None:
        """The exit code, once it has ended."""

    def wait(self, timeout: float | None = None) -> int:
        """The same, after waiting for it."""


def run_watched(job: Path, *, folder: Path, environment: Mapping[str, str], limits: ExecutionLimits) -> Ended:
    """Run a job to its end or its limits. A signal that ends this process ends the script and all that it started."""
    with _ended_by_signals():
        child = _started(job, folder, environment)
        begun = time.monotonic()
        stopped, last, spent = None, begun, 0.0
        try:
            while child.poll() is None and stopped is None:
                time.sleep(POLL_SECONDS)
                usage = _usage(child.pid, job.parent) if _HAS_PROC else _Usage(time.monotonic() - begun, 0)
                if usage.seconds > spent:
                    spent, last = usage.seconds, time.monotonic()
                stopped = _exceeded(usage, time.monotonic() - last, limits)
        finally:
            _end(child, job.parent)
    return Ended(child.poll(), stopped, spent)


def _started(job: Path, folder: Path, environment: Mapping[str, str]) -> RunningProcess:
    if _warm is not None:
        return _warm.fork(job)
    with (job.parent / "output.txt").open("wb") as output:
        return subprocess.Popen(
            [*_CHILD, str(job)],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=folder,
            env=dict(environment),
            start_new_session=True,
        )


@dataclass(frozen=True)
class _Usage:
    seconds: float
    bytes: int


def _exceeded(usage: _Usage, idle: float, limits: ExecutionLimits) -> str | None:
    if usage.seconds > limits.seconds:
        return "time"
    if usage.bytes > limits.bytes:
        return "memory"
    return "idle" if idle > limits.idle else None


def _usage(pid: int, top: Path) -> _Usage:
    """Processor time and memory of a process and of all that it has started."""
    seconds, size = 0.0, 0
    for one in _family(pid, top):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = _stat(one)
            seconds += sum(int(fields[at]) for at in (11, 12, 13, 14)) / TICKS
            resident, shared = Path(f"/proc/{one}/statm").read_text().split()[1:3]
            size += (int(resident) - (0 if one == pid else int(shared))) * PAGE
    return _Usage(seconds, size)


def _stat(pid: int) -> list[str]:
    """What the kernel says of a process, from its state on; its name before that may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _family(pid: int, top: Path) -> list[int]:
    """A process and all that it has started: its session, and whoever else was given its temporary folder."""
    if not _HAS_PROC:
        return [pid]
    mark = f"TMPDIR={top}/".encode()
    found = []
    for one in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if one == pid or int(_stat(one)[3]) == pid or mark in Path(f"/proc/{one}/environ").read_bytes():
                found.append(one)
    return found


def _end(child: RunningProcess, top: Path) -> None:
    """End a process, and whatever it started."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.kill(child.pid, signal.SIGTERM)
            child.wait(AFTER_LIMIT)
    for one in _family(child.pid, top):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(one, signal.SIGKILL)
    child.wait()


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let signals that end this process unwind it, so that nothing it started or wrote is left."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, _unwind)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _unwind(number: int, _: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # one is enough: what it ends takes a moment
    raise SystemExit(128 + number)


class _Forked:
    """A process that a warm one forked: `subprocess.Popen` as far as it is needed."""

    def __init__(self, server: subprocess.Popen[bytes]) -> None:
        assert server.stdout is not None
        self._lines = server.stdout
        self.pid = int(self._lines.readline())
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None and select.select([self._lines], [], [], 0)[0]:
            self._code = int(self._lines.readline() or -signal.SIGKILL)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        if self._code is None and not select.select([self._lines], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("script", timeout or 0)
        code = self.poll()
        assert code is not None
        return code


class _WarmProcess:
    """A process that has imported TensorFlow, and is forked for each script."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._server = subprocess.Popen(
            [*_CHILD, SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=dict(environment)
        )

    def fork(self, job: Path) -> _Forked:
        assert self._server.stdin is not None
        self._server.stdin.write(f"{job}\n".encode())
        return _Forked(self._server)

    def close(self) -> None:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()


_warm: _WarmProcess | None = None


@contextlib.contextmanager
def start_warm(environment: Mapping[str, str]) -> Iterator[None]:
    """Fork scripts that are run inside from a process that has TensorFlow: for many scripts, one after the other."""
    global _warm
    _warm = _WarmProcess(environment)
    try:
        yield
    finally:
        _warm.close()
        _warm = None
