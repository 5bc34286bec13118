"""The process in which a script runs: a copy of its folder, with limits on time, memory, files and network."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bushel.checking.collect.facts import Data
from bushel.checking.running.execution import Execution
from bushel.checking.script.source import read_source

SMALL = 4 << 20  # bytes of a file that is copied; larger ones are linked
MOST_FILES = 4000
SKIPPED = {".git", ".venv", "venv", "__pycache__", "node_modules", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache"}
CODE = {".py", ".ipynb"}
OUTPUT_TAIL = 4000
POLL_SECONDS = 0.1
AFTER_LIMIT = 2.0  # seconds in which the child may still write down what it saw


@dataclass(frozen=True)
class Limits:
    """What a run may take."""

    seconds: float = 120.0
    bytes: int = 8 << 30


def resolve_script(script: str | os.PathLike[str]) -> Path:
    """The file that runs: a folder with a `__main__.py` is a package."""
    path = Path(script)
    return path / "__main__.py" if (path / "__main__.py").is_file() else path


def run_script(
    script: str | os.PathLike[str],
    data: Data | None = None,
    *,
    args: str = "",
    limits: Limits | None = None,
    folders: Iterable[Path] = (),
) -> Execution:
    """Run a script for a few batches, and return what was seen."""
    source = read_source(resolve_script(script))
    root = _root_of(source.path)
    limits = limits or Limits()
    with tempfile.TemporaryDirectory(prefix="bushel-run-", ignore_cleanup_errors=True) as folder:
        top = Path(folder).resolve()
        copy = top / "copy"
        _copy_tree(root, copy)
        entry = copy / source.path.resolve().relative_to(root)
        _link_named(entry.parent, Path.cwd(), copy)
        if source.path.suffix == ".ipynb":
            entry = entry.with_name(f"{entry.stem}_notebook.py")
            entry.write_text(source.text, encoding="utf-8")
        job = _job(top, copy, entry, root, data, shlex.split(args), limits)
        job["folders"] = [str(folder.resolve()) for folder in folders]
        (top / "job.json").write_text(json.dumps(job))
        ended = _watch(top, copy, limits)
        events = list(_read_events(top / "seen.jsonl"))
        output = _tail(top / "output.txt")
        return Execution(source, root, copy, entry, events, output=output, data=data, **ended)


def _job(
    top: Path, copy: Path, entry: Path, root: Path, data: Data | None, args: list[str], limits: Limits
) -> dict[str, Any]:
    files = [
        {"path": str(file.path.resolve()), "split": file.split, "compression": file.compression or ""}
        for file in (data.files if data is not None else ())
        if file.problem is None and file.path.is_file()
    ]
    package = _package_of(entry, copy)
    return {
        "top": str(top),
        "copy": str(copy),
        "entry": str(entry),
        "root": str(root),
        "cwd": str(Path.cwd()),
        "package": package,
        "args": args,
        "files": files,
        "seconds": limits.seconds,
    }


def _root_of(script: Path) -> Path:
    """The folder that is copied: the script's, or of a package, the one that holds it."""
    folder = script.resolve().parent
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        folder = folder.parent
    return folder.parent if script.name == "__main__.py" and folder == script.resolve().parent else folder


def _package_of(entry: Path, copy: Path) -> str | None:
    """The dotted name under which a file of a package runs; None for a script."""
    if entry.parent == copy:
        return None
    return ".".join(entry.relative_to(copy).with_suffix("").parts)


def _copy_tree(root: Path, copy: Path) -> None:
    """Copy code and small files; large ones are linked, and can be read alone."""
    count = 0
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if name not in SKIPPED and not name.startswith("bushel-run-")]
        there = copy / Path(folder).relative_to(root)
        there.mkdir(parents=True, exist_ok=True)
        for name in files:
            source, target = Path(folder) / name, there / name
            with contextlib.suppress(OSError):
                is_small = source.stat().st_size <= SMALL and count < MOST_FILES
                if is_small or source.suffix in CODE:
                    shutil.copyfile(source, target)
                    count += 1
                else:
                    target.symlink_to(source)


def _link_named(folder: Path, here: Path, copy: Path) -> None:
    """Link what the code names and the folder lacks, but which is where `check` runs: scripts run from there."""
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in copy.rglob("*") if path.suffix in CODE]
    for entry in here.iterdir():
        is_named = any(re.search(rf"[\"'/]{re.escape(entry.name)}[\"'/]", text) for text in texts)
        if is_named and entry.name not in SKIPPED and not (folder / entry.name).exists():
            (folder / entry.name).symlink_to(entry)


def _environment(top: Path, copy: Path) -> dict[str, str]:
    return os.environ | {
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "KERAS_BACKEND": "tensorflow",
        "MPLBACKEND": "Agg",
        "WANDB_MODE": "disabled",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONHASHSEED": "0",
        "TMPDIR": str(top / "tmp"),
        "KERAS_HOME": str(top / "keras"),
        "MPLCONFIGDIR": str(top / "tmp"),
        "PWD": str(copy),
    }


def _watch(top: Path, copy: Path, limits: Limits) -> dict[str, Any]:
    """Start the child and end it at its limits."""
    for name in ("tmp", "keras", "shadow"):
        (top / name).mkdir()
    begun = time.monotonic()
    stopped = None
    with (top / "output.txt").open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "bushel.checking.running.child", str(top / "job.json")],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=copy,
            env=_environment(top, copy),
            start_new_session=True,
        )
        try:
            while child.poll() is None:
                time.sleep(POLL_SECONDS)
                if time.monotonic() - begun > limits.seconds:
                    stopped = "time"
                elif _resident_bytes(child.pid) > limits.bytes:
                    stopped = "memory"
                if stopped:
                    break
        finally:
            _end(child)
    return {"rc": child.returncode, "stopped": stopped, "seconds": time.monotonic() - begun, "limits": limits}


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the child and whatever it started: they are a session of their own."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            child.send_signal(signal.SIGTERM)
            child.wait(AFTER_LIMIT)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _resident_bytes(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _read_events(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        return
    for line in _lines(path):
        with contextlib.suppress(ValueError):  # the last line of a child that was killed
            yield json.loads(line)


def _lines(path: Path) -> Iterable[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines()


def _tail(path: Path) -> str:
    return path.read_bytes()[-OUTPUT_TAIL:].decode("utf-8", "replace") if path.is_file() else ""
