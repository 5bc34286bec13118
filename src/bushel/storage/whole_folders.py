"""Folders that change as a whole: replaced in one step, and locked in a store while a build writes there.

Stores have no locks, but they can refuse to write an object that exists, or that is no longer the one that was read. So
a lock there is an object that is created if there is none, and renewed while its holder lives. A process that was
killed leaves its object: another takes it over when it was not renewed for a while.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import threading
import time
import uuid
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from bushel.errors import FileProblem, WaitingWarning
from bushel.parallel import map_in_threads
from bushel.storage.objects import ObjectPath
from bushel.storage.stores import Status, put_new, put_over

__all__ = ["boot_of_machine", "finish_move", "hold", "new_path", "replace_folder", "replaced_path"]


def new_path(out: Path) -> Path:
    """Where a folder grows that will replace another."""
    return out.with_name(f".{out.name}.new")


def replaced_path(out: Path) -> Path:
    """Where a folder is between the two renames that replace it."""
    return out.with_name(f".{out.name}.replaced")


def replace_folder(out: Path, new: Path) -> None:
    """Replace a folder by a finished one; the old one is removed.

    Both change names in one step. Where the system cannot do that there are two steps, and whoever opens the folder
    takes the second one (`finish_move`) if the process that took the first was killed.
    """
    old = new
    if not _exchange(new, out):
        old = replaced_path(out)
        out.rename(old)
        finish_move(out)
    sync_folder(out.parent)
    with suppress(FileNotFoundError):  # another build has begun to remove it
        shards = (path for path in old.iterdir() if path.is_file())
        deque(map_in_threads(partial(Path.unlink, missing_ok=True), shards), maxlen=0)  # large files take time
        shutil.rmtree(old)


def finish_move(out: Path) -> bool:
    """Put a folder where it belongs if that was interrupted between two renames; whether there was one to put there.

    A store renames nothing.
    """
    if isinstance(out, ObjectPath) or not out.name or out.exists() or not replaced_path(out).is_dir():
        return False
    complete = (folder for folder in (new_path(out), replaced_path(out)) if (folder / "dataset.json").is_file())
    folder = next(complete, None)
    if folder is None:
        return False
    try:
        folder.rename(out)
    except OSError as error:
        if not out.exists():  # else another process has done it
            help = [f"Rename {folder} to {out.name}."]
            raise FileProblem(out, "a build was killed while it replaced this dataset", help=help) from error
    return True


def _exchange(one: Path, other: Path) -> bool:
    """Swap the names of two folders. False, with nothing done, if the system cannot."""
    libc = ctypes.CDLL(None)
    names = os.fsencode(one), os.fsencode(other)
    if hasattr(libc, "renameat2"):  # Linux: both relative to the working folder; RENAME_EXCHANGE
        return bool(libc.renameat2(-100, names[0], -100, names[1], 2) == 0)
    if hasattr(libc, "renamex_np"):  # macOS: RENAME_SWAP
        return bool(libc.renamex_np(*names, 2) == 0)
    return False


def sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_RELEASED: set[str] = set()  # tokens of claims that this process could not remove
BEAT = 10.0  # seconds after which a build renews its object
PATIENCE = 35.0  # seconds without renewal after which a build counts as dead
_LONG_AGO = 900.0  # seconds by which no two clocks differ


def boot_of_machine() -> str:
    """Something that changes when the machine restarts."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"{round((time.time() - time.monotonic()) / 60)}"  # its minute


class Claim(msgspec.Struct, frozen=True):
    """What the object says: which process on which machine builds."""

    token: str
    host: str
    boot: str
    process: int
    processes: str = ""  # the table that the number is from: each container counts its processes from 1
    started: str = ""  # when the process started: numbers are given again
    beat: int = 0

    @classmethod
    def own(cls) -> Claim:
        """Of this process."""
        here = socket.gethostname(), boot_of_machine(), os.getpid(), _table_of_processes(), _start_of(os.getpid())
        return cls(uuid.uuid4().hex, *here)


@contextmanager
def hold(path: Path, out: Path) -> Iterator[Holding]:
    """Lock a folder of a store by an object in it; a second build is refused while this one lives."""
    assert isinstance(path, ObjectPath)
    holding = Holding(path, out)
    try:
        yield holding
    finally:
        holding.release()


class Holding:
    """The object while this process holds it."""

    def __init__(self, path: ObjectPath, out: Path) -> None:
        self.path, self.out, self.claim = path, out, Claim.own()
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._is_lost = False
        try:
            self._held: Status | None = self._take()
        except NotImplementedError:  # a store that cannot do that: nobody is refused there
            self._held = None
        else:
            threading.Thread(target=self._beat, daemon=True).start()

    def _take(self) -> Status:
        data = msgspec.json.encode(self.claim)
        while True:
            if (made := put_new(self.path.key, data)) is not None:
                return made
            found = _read(self.path)
            if found is None:  # its build ended in the meantime
                continue
            other, status = found
            if other.token == self.claim.token:  # the answer to the first attempt was lost
                return status
            lives = _lives(other, status)
            if lives is False or (lives is None and self._stays(other, status)):
                made = put_over(self.path.key, data, status)
                if made is not None:
                    return made
            if _read(self.path) is not None:
                raise FileProblem(
                    self.out,
                    f"another build is writing here right now, on {other.host}",
                    help=[f"If no build is running there, delete {self.path} and run this again."],
                )

    def _stays(self, other: Claim, status: Status) -> bool:
        """Whether nobody renews the object. Clocks are not compared: what counts is whether it changes."""
        said = f"a build on {other.host} has claimed this folder: waiting up to {PATIENCE:g} s for a sign of life"
        warnings.warn(f"{self.out}: {said}", WaitingWarning, stacklevel=2)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            time.sleep(min(1.0, PATIENCE / 5))
            found = _read(self.path)
            if found is None or found[1].etag != status.etag:
                return False
        return True

    def _beat(self) -> None:
        claim = self.claim
        while not self._is_over.wait(BEAT):
            with suppress(FileProblem), self._lock:  # a store that fails for a while is reported elsewhere
                if self._is_over.is_set():
                    return
                claim = msgspec.structs.replace(claim, beat=claim.beat + 1)
                assert self._held is not None
                made = put_over(self.path.key, msgspec.json.encode(claim), self._held)
                if made is not None:
                    self._held = made
                elif (found := _read(self.path)) is not None and found[0].token == self.claim.token:
                    self._held = found[1]
                else:
                    self._is_lost = True
                    return

    def check(self) -> None:
        """Raise if another build took over because this one was silent for too long."""
        if self._held is None:
            return
        found = None if self._is_lost else _read(self.path)
        if found is None or found[0].token != self.claim.token:
            raise FileProblem(
                self.out,
                "another build took this folder over because this one was silent for too long",
                help=["The files there belong to the other build."],
            )

    def release(self) -> None:
        """Release the folder."""
        self._is_over.set()
        if self._held is None:
            return
        with self._lock, suppress(FileProblem, FileNotFoundError):
            found = None if self._is_lost else _read(self.path)
            if found is None or found[0].token != self.claim.token:
                return
            try:
                self.path.fresh().unlink()
            except FileProblem:  # what stays there says that nobody renews it, although the process lives
                _RELEASED.add(self.claim.token)
                put_over(self.path.key, msgspec.json.encode(msgspec.structs.replace(self.claim, boot="")), found[1])


def _read(path: ObjectPath) -> tuple[Claim, Status] | None:
    try:
        status = path.fresh().status()
        claim = msgspec.json.decode(path.read_bytes(), type=Claim)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError:
        return Claim("", "another machine", "", 0), status
    return claim, status


def _lives(claim: Claim, status: Status) -> bool | None:
    """Whether its process runs, if that can be known: in the same table of processes, or after a long silence.

    None: only its next beat can tell. A number of a process says nothing outside its own table: in a container, every
    build is process 1.
    """
    if claim.token in _RELEASED:
        return False
    if (claim.boot, claim.processes) != (boot_of_machine(), _table_of_processes()):
        return False if time.time() - status.mtime_ns / 1e9 > _LONG_AGO else None
    if not _is_running(claim.process):
        return False
    started = _start_of(claim.process)
    return started == claim.started if started and claim.started else None


def _table_of_processes() -> str:
    """What tells the processes of this container from those of others on the same machine."""
    try:
        return f"{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()  # a system without containers of its own


def _start_of(process: int) -> str:
    """When a process started, in ticks since the machine did; empty where the system does not say."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
