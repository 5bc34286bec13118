"""What runs in a worker process: work and tasks come over one connection, and what became of them goes back."""

from __future__ import annotations

import importlib
import os
import pickle
import queue
import signal
import sys
import threading
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

__all__ = ["BOOT", "serve"]

# Standard library alone until the paths of the process that starts it are known.
BOOT = (
    "import sys; from multiprocessing.connection import Connection; c = Connection(int(sys.argv[1])); "
    "sys.argv[:], sys.path[:], modules = c.recv(); "
    "from bushel.building.engines.worker import serve; serve(c, modules)"
)


def serve(connection: Connection, modules: list[str]) -> None:
    """Do what is sent until the connection is closed, and end at once then, in the midst of a task too.

    `modules` are imported first: the tasks will need them, and a plan may still be in the making.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the process that started this one
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(connection, messages), daemon=True).start()
    for name in modules:
        with suppress(ImportError):
            importlib.import_module(name)
    work: Any = None
    while True:
        message = messages.get()
        answer: tuple[Any, BaseException | None, str]
        try:
            pickled, task = pickle.loads(message)
            work = work if pickled is None else pickle.loads(pickled)
            answer = (work(task), None, "")
        except BaseException as error:  # whatever it is, the process that waits must hear of it
            answer = (None, error, traceback.format_exc())
        _send(connection, answer)


def _receive(connection: Connection, messages: queue.SimpleQueue[bytes]) -> None:
    # Nobody would end a worker that outlives its build, and it would keep its memory.
    try:
        while True:
            messages.put(connection.recv_bytes())
    except (EOFError, OSError):
        os._exit(1)


def _send(connection: Connection, answer: tuple[Any, BaseException | None, str]) -> None:
    try:
        data = pickle.dumps(answer)
        pickle.loads(data)
    except Exception:
        value, error, told = answer
        said = f"{type(error).__name__}: {error}" if error else f"{type(value).__name__} cannot be sent back"
        data = pickle.dumps((None, RuntimeError(said), told))
    try:
        connection.send_bytes(data)
    except OSError:
        sys.exit(1)
