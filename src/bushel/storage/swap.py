"""Replacing one folder by another, so that one of them is there at every moment."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections import deque
from contextlib import suppress
from functools import partial
from pathlib import Path

from bushel.errors import FileProblem
from bushel.parallel import map_in_threads
from bushel.storage.objects import ObjectPath

__all__ = ["finish_move", "new_path", "replace_folder", "replaced_path"]


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
