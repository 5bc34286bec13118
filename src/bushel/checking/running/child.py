"""Run a script under observation: `python -m bushel.checking.running.child JOB`. Started by `execution`."""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import faulthandler
import json
import os
import signal
import struct
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from bushel.checking.running.processes import SERVE
from bushel.checking.running.user_code import compile_watched, install_loops, seen, user_place

# What the kernel forbids this process: writing outside its folder, and the network.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_NO_NEW_PRIVILEGES = 38
_PARENT_DEATH_SIGNAL = 1
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
# Landlock's rights that change something: write, remove, make (not read and not execute).
_WRITE_RIGHTS = (1 << 1) | sum(1 << bit for bit in range(4, 13))
_MOVE = 1 << 13  # from folder to folder, as checkpoints are; kernels that do not know it refuse all such moves
_TRUNCATE = 1 << 14  # kernels that do not know it let every file be emptied
_FILE_WRITE = 1 << 1
_ASK_VERSION = 1
_PATH_BENEATH = 1
_NEW_MOUNTS = 0x00020000
_PRIVATE, _BIND = (1 << 14) | (1 << 18), 1 << 12  # MS_REC | MS_PRIVATE, MS_BIND
_MOUNT_SETATTR, _RECURSIVE, _HERE, _READ_ONLY = 442, 0x8000, -100, 1


def _main(job: dict[str, Any]) -> None:
    top = job["top"]
    seen.file = (Path(top) / "seen.jsonl").open("w", encoding="utf-8")
    seen.roots = tuple(dict.fromkeys((job["copy"] + os.sep, job["root"] + os.sep)))
    network = _forbid_network()  # first: where it takes a user namespace, mounts may change in it
    attributes = _make_all_read_only(top)
    allowed = [top, "/dev/shm", "/proc/self"]
    files = _forbid_writing_outside(allowed, ["/dev/null", "/dev/tty"])
    seen.tell("sandbox", files=files, attributes=attributes, network=network)
    _end_with_parent()  # after a new network, which makes the kernel forget it
    signal.signal(signal.SIGTERM, _stopped)
    begun = time.process_time()
    _prepare(job)
    seen.tell("ready", seconds=time.process_time() - begun)
    _run(job)
    from bushel.checking.running.watched_steps import tell_end

    tell_end()
    seen.tell("end", seconds=time.process_time() - begun)
    # TensorFlow's threads may hang at exit; everything is written.
    sys.stdout.flush()
    os._exit(0)


def _forbid_writing_outside(folders: Iterable[str], files: Iterable[str]) -> bool:
    """Let this process write below these folders alone; False where the kernel cannot do that."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, 0, _ASK_VERSION)
    write = _WRITE_RIGHTS | (_MOVE if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    file_write = write & (_FILE_WRITE | _TRUNCATE)
    rights = ctypes.create_string_buffer(struct.pack("Q", write))
    ruleset = libc.syscall(_CREATE_RULESET, rights, 8, 0)
    if ruleset < 0:
        return False
    try:
        for path, allowed in [*((f, write) for f in folders), *((f, file_write) for f in files)]:
            if not os.path.exists(path):
                continue
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rule = ctypes.create_string_buffer(struct.pack("=Qi", allowed, opened))
            libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
            os.close(opened)
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return bool(libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0 and version >= 3)
    finally:
        os.close(ruleset)


def _make_all_read_only(top: str) -> bool:
    """Mount everything but one folder read-only for this process, and give it a shared memory of its own.

    Landlock does not know modes, times and other attributes of files; a mount that is read-only refuses to change them.
    False, with nothing done, where the system does not allow it.
    """
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    place = os.fsencode(top)
    if libc.unshare(_NEW_MOUNTS) != 0 or libc.mount(b"none", b"/", None, _PRIVATE, None) != 0:
        return False
    if libc.mount(place, place, None, _BIND, None) != 0:
        return False
    read_only, writable = ((_READ_ONLY, 0), (0, _READ_ONLY))
    for where, how, (set_, cleared) in ((b"/", _RECURSIVE, read_only), (place, 0, writable)):
        change = ctypes.create_string_buffer(struct.pack("QQQQ", set_, cleared, 0, 0), 32)
        if libc.syscall(_MOUNT_SETATTR, _HERE, where, how, change, 32) != 0:
            return False
    libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, b"mode=1777")
    os.chdir(os.getcwd())  # the working folder is still that of the mount below
    return True


def _forbid_network() -> bool:
    """Move this process to a network of its own, with nothing in it; False where that is not allowed."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NETWORK) == 0:
        return True
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_NEW_USER | _NEW_NETWORK) != 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        try:
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
        except OSError:
            pass
    return True


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
    from bushel.checking.running import keras_replacements as downloads
    from bushel.checking.running import links, training

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


def _serve() -> None:
    """Import TensorFlow once, and fork for each job that a line of the input names: print its number, then its exit."""
    import keras  # noqa: F401
    import tensorflow  # noqa: F401

    for line in sys.stdin:
        job = Path(line.rstrip("\n"))
        pid = os.fork()
        if pid == 0:
            _begin_forked(job)
            _main(json.loads(job.read_text()))
        _answer(pid)
        _answer(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _answer(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def _begin_forked(job: Path) -> None:
    """Be a process of its own, as one that was started for the job."""
    os.setsid()
    told = json.loads(job.read_text())
    output = os.open(job.parent / "output.txt", os.O_WRONLY | os.O_CREAT, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for given, number in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(given, number)
    os.environ.update(told["environment"])
    tempfile.tempdir = None
    os.chdir(told["copy"])


def _end_with_parent() -> None:
    """Let the kernel end this process when the one that started it is gone."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    faulthandler.enable()
    sys.setrecursionlimit(5000)
    threading.excepthook = threading.__excepthook__
    if sys.argv[1] == SERVE:
        _serve()
    else:
        _main(json.loads(Path(sys.argv[1]).read_text()))
