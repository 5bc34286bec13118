"""Run a user's script under observation: `python -m bushel.checking.running.child JOB`. Started by the sandbox."""

from __future__ import annotations

import builtins
import contextlib
import faulthandler
import json
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from bushel.checking.running.limits import forbid_network, forbid_writing_outside
from bushel.checking.running.loops import compile_watched, install_loops
from bushel.checking.running.places import seen, user_place

__all__: list[str] = []


def _main(job: dict[str, Any]) -> None:
    top = job["top"]
    seen.file = (Path(top) / "seen.jsonl").open("w", encoding="utf-8")
    seen.roots = tuple(dict.fromkeys((job["copy"] + os.sep, job["root"] + os.sep)))
    allowed = [top, "/dev/shm", "/proc/self"]
    seen.tell("sandbox", files=forbid_writing_outside(allowed, ["/dev/null", "/dev/tty"]), network=forbid_network())
    signal.signal(signal.SIGTERM, _stopped)
    begun = time.monotonic()
    _prepare(job)
    seen.tell("ready", seconds=time.monotonic() - begun)
    _run(job)
    from bushel.checking.running.watched_steps import tell_end

    tell_end()
    seen.tell("end", seconds=time.monotonic() - begun)
    # TensorFlow's threads may hang at exit; everything is written.
    sys.stdout.flush()
    os._exit(0)


def _stopped(_: int, __: FrameType | None) -> None:
    place = user_place()
    seen.tell("stopped", place=place)
    with contextlib.suppress(BaseException):
        from bushel.checking.running.watched_steps import tell_end

        tell_end()
    os._exit(3)


def _prepare(job: dict[str, Any]) -> None:
    """Import TensorFlow and put everything in place, ahead of the user's code."""
    from bushel.checking.running import replacements

    replacements.install_plain(job)
    import tensorflow as tf

    install_loops()  # after TensorFlow, whose thousands of modules are not the user's

    tf.config.threading.set_intra_op_parallelism_threads(0)
    replacements.install_tensorflow()
    from bushel.checking.running import downloads, links, training

    downloads.install()
    links.install()
    training.install()


def _run(job: dict[str, Any]) -> None:
    entry, package = job["entry"], job["package"]
    sys.argv = [entry, *job["args"]]
    os.chdir(job["copy"] if package else Path(entry).parent)
    sys.path[0] = job["copy"] if package else str(Path(entry).parent)
    sys.path += [place for place in (job["copy"], job["cwd"]) if place not in sys.path]
    module = ModuleType("__main__")
    module.__file__ = entry
    module.__dict__["__builtins__"] = builtins
    if package:
        module.__package__ = package.rpartition(".")[0]
    sys.modules["__main__"] = module
    try:
        code = compile_watched(Path(entry).read_bytes(), entry)
        exec(code, module.__dict__)
    except SystemExit as ended:
        if ended.code not in (None, 0):
            seen.tell("exit", code=str(ended.code), place=_exit_place(ended))
    except KeyboardInterrupt:
        pass
    except BaseException as error:
        from bushel.checking.running.failures import tell_failure

        tell_failure(error)
        traceback.print_exc()


def _exit_place(ended: SystemExit) -> Any:
    from bushel.checking.running.failures import frames_of

    frames = frames_of(ended)
    return frames[-1] if frames else None


if __name__ == "__main__":
    faulthandler.enable()
    sys.setrecursionlimit(5000)
    threading.excepthook = threading.__excepthook__
    _main(json.loads(Path(sys.argv[1]).read_text()))
