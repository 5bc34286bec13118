"""A process that makes batches, for programs whose main thread keeps Python busy.

The two talk over a socket. Each batch comes as one anonymous file, which the receiver maps: nothing is copied, and
nothing is left behind whoever is killed.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import warnings
from typing import Any

from bushel import _native
from bushel.errors import BushelError
from bushel.reading.batch import Made, Place
from bushel.reading.dataset import Split
from bushel.reading.pipeline import Threads
from bushel.reading.prepare import prepare, tasks_ahead, threads_of

__all__ = ["Process"]

_HEADER = struct.Struct("<QI")  # size of the pickle, number of buffers
_ALIGNMENT = 64
_ASK = b"+"


class Process:
    """Gives what a helper process made, in order."""

    def __init__(self, split: Split, settings: Any, place: Place, *, until: int | None, ahead: int) -> None:
        mine, theirs = socket.socketpair()
        command = [sys.executable, "-c", "from bushel.reading.process import serve; serve()", str(theirs.fileno())]
        self._child = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        self._socket = mine
        self._send((list(sys.path), split, settings, place, until))
        self._socket.sendall(_ASK * ahead)

    def _send(self, work: Any) -> None:
        import cloudpickle  # takes lambdas and what __main__ defines

        data = cloudpickle.dumps(work)
        self._socket.sendall(struct.pack("<Q", len(data)) + data)

    def next(self) -> Made | None:
        """The next that was made; None behind the last."""
        answer = receive(self._socket)
        if isinstance(answer, BaseException):
            raise answer
        if answer is not None:
            self._socket.sendall(_ASK)
        return answer  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the process."""
        self._socket.close()
        self._child.terminate()
        self._child.wait()


def serve() -> None:
    """Be the helper process: read what to do from the socket whose number is the argument, and do it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer: it closes the socket
    with socket.socket(fileno=int(sys.argv[1])) as link:
        (size,) = struct.unpack("<Q", _read(link, 8))
        path, *work = pickle.loads(_read(link, size))
        sys.path[:] = path
        try:
            _serve_all(link, *work)
        except (BrokenPipeError, ConnectionResetError, EOFError):
            return
        except BaseException as error:
            send(link, error if isinstance(error, BushelError) else _picklable(error))


def _serve_all(link: socket.socket, split: Split, settings: Any, place: Place, until: int | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the parent has said them
        maker, plan = prepare(split, settings)
    threads = Threads(
        maker,
        maker.ahead(plan.through(until).tasks(place)),
        threads=threads_of(settings),
        ahead=tasks_ahead(settings, plan.batches_at_once),
    )
    try:
        while (made := threads.next()) is not None:
            _read(link, len(_ASK))  # never more than was asked for
            send(link, made)
        send(link, None)
        _read(link, 1 << 20)  # until the parent hangs up
    finally:
        threads.close()


def _picklable(error: BaseException) -> BaseException:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def send(link: socket.socket, value: Any) -> None:
    """Send a value, and its arrays in a file that has no name."""
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    sizes = struct.pack(f"<{len(views)}Q", *(view.nbytes for view in views))
    file = _anonymous_file()
    try:
        for view in views:
            _write_all(file, view)
            os.lseek(file, -view.nbytes % _ALIGNMENT, os.SEEK_CUR)
        os.ftruncate(file, max(1, os.lseek(file, 0, os.SEEK_CUR)))
        socket.send_fds(link, [_HEADER.pack(len(data), len(views))], [file])
        link.sendall(sizes + data)
    finally:
        os.close(file)


def receive(link: socket.socket) -> Any:
    """Receive what `send` sent; its arrays stay in the file, which is gone when they are."""
    header, files, _, _ = socket.recv_fds(link, _HEADER.size, 1)
    if len(header) < _HEADER.size:
        raise RuntimeError("the helper process ended before its work was done")
    size, count = _HEADER.unpack(header)
    sizes = struct.unpack(f"<{count}Q", _read(link, 8 * count))
    length = os.fstat(files[0]).st_size
    # Mapped by the core, which keeps no file open: a kept batch must not cost one.
    memory: Any = _native.Mapping([(f"/dev/fd/{files[0]}", length)], True).memory
    os.close(files[0])
    buffers, at = [], 0
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
