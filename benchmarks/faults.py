"""Commands that are killed or interrupted, whose disk fails or fills up: are the bytes the same afterwards.

python benchmarks/faults.py                    everything, some minutes
python benchmarks/faults.py kills --times 6    one question; see QUESTIONS below
python benchmarks/faults.py errors --only build-table,index

A small library, compiled here and loaded into the command, counts what it does to files (writing, making, renaming,
removing, flushing) and lets one of those calls fail, or kills all processes of the command there. So faults happen
between any two steps, and not only where a clock says so. Each command is then given again, and what it leaves must be
the bytes of a run without a fault.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_long *counter;
static long at = -1;
static int code;
static const char *root;

__attribute__((constructor)) static void begin(void) {
  const char *file = getenv("FAULT_COUNTER");
  root = getenv("FAULT_ROOT");
  if (!file || !root) return;
  int opened = open(file, O_RDWR);
  if (opened < 0) return;
  void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0);
  close(opened);
  if (page == MAP_FAILED) return;
  counter = page;
  at = getenv("FAULT_AT") ? atol(getenv("FAULT_AT")) : -1;
  code = getenv("FAULT_CODE") ? atoi(getenv("FAULT_CODE")) : 0;
}

static int strikes(const char *path) {
  if (!counter || !path || strncmp(path, root, strlen(root)) != 0) return 0;
  if (atomic_fetch_add(counter, 1) != at) return 0;
  if (!code) kill(-getpgrp(), SIGKILL);
  errno = code;
  return 1;
}

static int strikes_fd(int fd) {
  char link[64], path[4096];
  if (!counter || fd < 3) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, sizeof path - 1);
  if (size <= 0) return 0;
  path[size] = 0;
  return strikes(path);
}

static const char *absolute(int folder, const char *path, char *into) {
  if (path[0] == '/') return path;
  char link[64];
  if (folder == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
  else snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
  ssize_t size = readlink(link, into, 4000);
  if (size <= 0) return NULL;
  snprintf(into + size, 8192 - size, "/%s", path);
  return into;
}

#define REAL(type, name, ...) static type (*real)(__VA_ARGS__); if (!real) real = dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *data, size_t size) {
  REAL(ssize_t, write, int, const void *, size_t);
  return strikes_fd(fd) ? -1 : real(fd, data, size);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at_) {
  REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t);
  return strikes_fd(fd) ? -1 : real(fd, data, size, at_);
}
int fsync(int fd) {
  REAL(int, fsync, int);
  return strikes_fd(fd) ? -1 : real(fd);
}
int ftruncate64(int fd, off64_t size) {
  REAL(int, ftruncate64, int, off64_t);
  return strikes_fd(fd) ? -1 : real(fd, size);
}
int rename(const char *from, const char *to) {
  REAL(int, rename, const char *, const char *);
  char into[8192];
  return strikes(absolute(AT_FDCWD, to, into)) ? -1 : real(from, to);
}
int unlink(const char *path) {
  REAL(int, unlink, const char *);
  char into[8192];
  return strikes(absolute(AT_FDCWD, path, into)) ? -1 : real(path);
}
int unlinkat(int folder, const char *path, int flags) {
  REAL(int, unlinkat, int, const char *, int);
  char into[8192];
  return strikes(absolute(folder, path, into)) ? -1 : real(folder, path, flags);
}
int mkdir(const char *path, mode_t mode) {
  REAL(int, mkdir, const char *, mode_t);
  char into[8192];
  return strikes(absolute(AT_FDCWD, path, into)) ? -1 : real(path, mode);
}
int open64(const char *path, int flags, ...) {
  REAL(int, open64, const char *, int, ...);
  va_list rest;
  va_start(rest, flags);
  mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  char into[8192];
  if ((flags & O_CREAT) && strikes(absolute(AT_FDCWD, path, into))) return -1;
  return real(path, flags, mode);
}
"""
ENOSPC, EIO, EACCES = 28, 5, 13
BUSHEL = [sys.executable, "-m", "bushel"]


@dataclass(frozen=True)
class Job:
    """A command, what is there before it, and the folder that it writes."""

    name: str
    command: list[str]
    out: str
    before: tuple[list[str], ...] = ()
    again: list[str] | None = None  # what continues it, if that is another command
    left: tuple[str, ...] = ()  # files beside the folder that it may leave


@dataclass
class Result:
    """What was tried and what went wrong."""

    tried: int = 0
    wrong: list[str] = field(default_factory=list)

    def note(self, what: str, *, holds: bool) -> None:
        """Count a try, and keep what did not hold."""
        self.tried += 1
        if not holds:
            self.wrong.append(what)
            sys.stdout.write(f"  WRONG {what}\n")


BUILD = ["build", "rows.csv", "out", "--label", "label", "--split", "80/20", "--workers", "2", "--shards", "3"]
JOBS = [
    Job("build-table", BUILD, "out"),
    Job("build-images", ["build", "photos", "out", "--split", "80/20", "--workers", "2", "--shards", "3"], "out"),
    Job("build-text", ["build", "texts.txt", "out", "--tokenise", "word", "--workers", "2"], "out"),
    Job("build-gzip", [*BUILD, "--compression", "gzip"], "out"),
    Job("append", ["build", "more.csv", "out", "--append", "--workers", "2"], "out", before=(BUILD,)),
    Job("overwrite", [*BUILD, "--overwrite", "--seed", "5"], "out", before=(BUILD,)),
    Job("export", ["export", "out", "exported", "--format", "jsonl"], "exported", before=(BUILD,)),
    Job("repair", ["repair", "bad.tfrecord", "good.tfrecord"], "good.tfrecord"),
    Job("index", ["index", "plain"], "plain"),
    Job(
        "train",
        ["train", "out", "--out", "run", "--epochs", "3"],
        "run",
        before=(BUILD,),
        again=["train", "--out", "run", "--resume"],
    ),
]


def make_material(folder: Path) -> None:
    """Small sources of each kind."""
    import numpy as np
    from PIL import Image

    import bushel

    draw = np.random.default_rng(0)
    rows = [f"{n},{draw.normal():.3f},{'ab'[n % 2]}" for n in range(3000)]
    (folder / "rows.csv").write_text("\n".join(["id,x,label", *rows]) + "\n")
    (folder / "more.csv").write_text("\n".join(["id,x,label", *(f"{n},1.5,a" for n in range(9000, 9400))]) + "\n")
    (folder / "texts.txt").write_text("".join(f"some words number {n % 50}\n" for n in range(2000)))
    for n in range(60):
        place = folder / "photos" / "ab"[n % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 255, (24, 24, 3), np.uint8)).save(place / f"{n}.png")
    (folder / "plain").mkdir()
    with bushel.Writer(folder / "plain" / "a.tfrecord") as writer:
        for n in range(500):
            writer.write({"x": n, "y": "text" * (n % 7)})
    for path in [*(folder / "plain").rglob("*.idx"), *(folder / "plain").glob("*.json")]:
        path.unlink()
    data = bytearray((folder / "plain" / "a.tfrecord").read_bytes())
    data[len(data) // 2] ^= 0xFF
    (folder / "bad.tfrecord").write_bytes(data)


class Bench:
    """The material, the library that makes calls fail, and runs of commands."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.material = top / "material"
        self.material.mkdir()
        make_material(self.material)
        (top / "shim.c").write_text(SHIM)
        self.shim = top / "shim.so"
        build = ["cc", "-shared", "-fPIC", "-O1", "-w", "-o", str(self.shim), str(top / "shim.c"), "-ldl"]
        subprocess.run(build, check=True)
        self.counter = top / "counter"

    def fresh(self, job: Job) -> Path:
        """A folder with the material, and with what was there before the command."""
        folder = self.top / "work"
        shutil.rmtree(folder, ignore_errors=True)
        kept = self.top / f"before-{job.name}"
        if not kept.exists():
            shutil.copytree(self.material, kept)
            for command in job.before:
                self.run(kept, command)
        shutil.copytree(kept, folder)  # times stay, so sources have not changed
        return folder

    def run(
        self, folder: Path, command: list[str], fault: tuple[int, int] | None = None, *, counts: bool = False
    ) -> tuple[int, str]:
        """Run a command, with a fault at a call: its exit code and what it said."""
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "CUDA_VISIBLE_DEVICES": ""}
        if fault is not None or counts:
            self.counter.write_bytes(bytes(4096))
            at, code = fault or (-1, 0)
            environment |= {"LD_PRELOAD": str(self.shim), "FAULT_COUNTER": str(self.counter)}
            environment |= {"FAULT_ROOT": f"{folder}/", "FAULT_AT": str(at), "FAULT_CODE": str(code)}
        process = subprocess.Popen(
            [*BUSHEL, *command],
            cwd=folder,
            env=environment,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            said, _ = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return -99, "did not end within 120 s\n" + process.communicate()[0]
        return process.returncode, said

    def calls(self) -> int:
        """How many calls the last command made."""
        return int.from_bytes(self.counter.read_bytes()[:8], "little")


def digests(place: Path) -> dict[str, str]:
    """The digest of each file below a folder, or of a file."""
    files = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
    return {str(path.relative_to(place.parent)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@dataclass(frozen=True)
class Reference:
    """What a command leaves if nothing happens: files whose bytes are the same each time, all names, its calls."""

    same: Mapping[str, str]
    names: frozenset[str]
    calls: int


def reference(bench: Bench, job: Job) -> Reference:
    """Run a command twice without a fault."""
    found = []
    for _ in range(2):
        folder = bench.fresh(job)
        code, said = bench.run(folder, job.command, counts=True)
        assert code in (0, 1), f"{job.name}: exit {code}\n{said}"
        found.append(digests(folder / job.out))
    same = {name: digest for name, digest in found[0].items() if found[1].get(name) == digest}
    return Reference(same, frozenset(found[0]), bench.calls())


def differences(folder: Path, job: Job, wanted: Reference) -> str:
    """How what is there now differs from the reference; empty if it does not.

    A process that was killed may leave a hidden file with `.partial` at its end, which nothing reads.
    """
    now = digests(folder / job.out) if (folder / job.out).exists() else {}
    changed = [name for name, digest in wanted.same.items() if now.get(name) != digest]
    more = sorted(name for name in now.keys() - wanted.names if not name.endswith(".partial"))
    beside = sorted(path.name for path in folder.iterdir() if path.name.startswith(".") and path.suffix != ".partial")
    found = {"differs": changed, "more": more, "left": beside}
    return "; ".join(f"{what}: {', '.join(names[:4])}" for what, names in found.items() if names)


def strike(bench: Bench, job: Job, wanted: Reference, fault: tuple[int, int], result: Result) -> None:
    """One fault, and the command again."""
    folder = bench.fresh(job)
    code, said = bench.run(folder, job.command, fault)
    what = f"{job.name} {'killed' if not fault[1] else os.strerror(fault[1])} at call {fault[0]} of {wanted.calls}"
    if fault[1]:
        result.note(f"{what}: exit {code}: {said[-300:]}", holds=code in (0, 1, 2) and "Traceback" not in said)
    if code in (0, 1) and not differences(folder, job, wanted):
        if not fault[1]:
            result.note(f"{what}: ended before", holds=True)
        return
    again, said = bench.run(folder, job.again or job.command)
    if again not in (0, 1) and job.again is not None:
        again, said = bench.run(folder, job.command)
    if again == 2 and ("exists" in said or "is not empty" in said):
        again = 0  # it was complete, and compared with that
    left = differences(folder, job, wanted)
    result.note(
        f"{what}: then exit {again}: {left} {said[-300:] if again not in (0, 1) else ''}",
        holds=again in (0, 1) and not left,
    )


def moments(calls: int, times: int, draw: random.Random) -> Iterator[int]:
    """Some calls, spread over all of them."""
    for number in range(times):
        low, high = calls * number // times, max(calls * (number + 1) // times, 1)
        yield draw.randrange(low, max(high, low + 1))


def try_faults(bench: Bench, times: int, only: set[str], codes: tuple[int, ...]) -> Result:
    """Let calls of each command fail, or kill it there."""
    result, draw = Result(), random.Random(int(time.time()))
    for job in JOBS:
        if only and job.name not in only:
            continue
        begun, before = time.time(), result.tried
        wanted = reference(bench, job)
        for number, at in enumerate(moments(wanted.calls, times, draw)):
            strike(bench, job, wanted, (at, codes[number % len(codes)]), result)
        sys.stdout.write(
            f"  {job.name}: {wanted.calls} calls, {len(wanted.same)} of {len(wanted.names)} files compared, "
            f"{result.tried - before} checks, {time.time() - begun:.0f} s\n"
        )
        sys.stdout.flush()
    return result


def try_kills(bench: Bench, times: int, only: set[str]) -> Result:
    """Commands killed between two calls, then given again."""
    return try_faults(bench, times, only, (0,))


def try_errors(bench: Bench, times: int, only: set[str]) -> Result:
    """Calls that fail because a disk is full, broken or forbidden."""
    return try_faults(bench, times, only, (ENOSPC, EIO, ENOSPC, EACCES))


def try_full(bench: Bench, times: int, only: set[str]) -> Result:
    """A file system in memory that fills up, made larger afterwards."""
    result = Result()
    for job in JOBS:
        if (only and job.name not in only) or job.name in ("repair", "index", "train"):
            continue
        wanted = reference(bench, job)
        used = sum(path.stat().st_size for path in bench.fresh(job).rglob("*") if path.is_file())
        made = sum(path.stat().st_size for path in (bench.top / "work").rglob("*") if path.is_file())
        for number in range(max(2, times // 3)):
            size = (used + 300_000 + (made // 2 + 200_000) * number // max(2, times // 3)) >> 10
            script = (
                f"mount -t tmpfs -o size={size}k none work && cp -a before-{job.name}/. work/ 2>/dev/null; cd work; "
                f"{' '.join([*BUSHEL, *job.command])}; echo code $?; mount -o remount,size=1g none . ; "
                f"{' '.join([*BUSHEL, *job.command])}; echo code $?; rm -rf ../kept; mkdir ../kept; cp -a . ../kept/"
            )
            command = ["unshare", "-Urm", "bash", "-c", script]
            done = subprocess.run(command, cwd=bench.top, capture_output=True, text=True, check=False, timeout=200)
            said = done.stdout + done.stderr
            codes = [line.split()[1] for line in said.splitlines() if line.startswith("code ")]
            left = differences(bench.top / "kept", job, wanted) if (bench.top / "kept").exists() else "nothing"
            holds = len(codes) == 2 and codes[0] in "012" and codes[1] in "01" and not left and "Traceback" not in said
            result.note(f"{job.name} in {size} kB: {codes} {left} {said[-400:] if not holds else ''}", holds=holds)
    return result


COMMANDS = [
    *([*job.before[:1], job.command] if job.before else [job.command] for job in JOBS),
    [BUILD, ["check", "out"]],
    [BUILD, ["info", "out"]],
    [BUILD, ["cat", "out"]],
    [BUILD, ["report", "out", "page.html"]],
    [BUILD, ["bench", "out"]],
    [BUILD, ["view", "out", "--no-browser"]],
    [["doctor"]],
]


def try_interrupts(bench: Bench, times: int, only: set[str]) -> Result:
    """Ctrl-C at some moment of each command: exit code 130, and no traceback."""
    result, draw = Result(), random.Random(3)
    for *before, command in COMMANDS:
        if only and command[0] not in only:
            continue
        for _ in range(max(1, times // 3)):
            folder = bench.top / "work"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(bench.material, folder)
            for one in before:
                bench.run(folder, one)
            process = subprocess.Popen(
                [*BUSHEL, *command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            time.sleep(0.2 + draw.random() * 2.5)
            process.send_signal(signal.SIGINT)
            try:
                said, _ = process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                said = "did not end " + process.communicate()[0]
            holds = process.returncode in (0, 1, 2, 130, -2) and "Traceback" not in said and "did not end" not in said
            result.note(f"{command[0]}: exit {process.returncode}: {said[-500:]}", holds=holds)
    return result


def try_limits(bench: Bench, times: int, only: set[str]) -> Result:
    """Few descriptors, little memory, small files, no permission to write: a line, and nothing lost."""
    result = Result()
    limits = ["ulimit -n 24", "ulimit -n 48", "ulimit -v 900000", "ulimit -v 1600000", "ulimit -f 20", "ulimit -f 60"]
    for job in JOBS:
        if (only and job.name not in only) or job.name == "train":
            continue
        wanted = reference(bench, job)
        for limit in limits[: max(2, times)]:
            folder = bench.fresh(job)
            script = f"{limit}; exec {' '.join([*BUSHEL, *job.command])}"
            done = subprocess.run(
                ["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=False, timeout=120
            )
            said = done.stdout + done.stderr
            is_clear = done.returncode in (0, 1, 2) and "Traceback" not in said
            result.note(f"{job.name} with {limit}: exit {done.returncode}: {said[-500:]}", holds=is_clear)
            if done.returncode == 2 or not is_clear:
                again, said = bench.run(folder, job.command)
                left = differences(folder, job, wanted)
                result.note(
                    f"{job.name} after {limit}: exit {again}: {left} {said[-300:]}", holds=again in (0, 1) and not left
                )
    return result


QUESTIONS: dict[str, Callable[[Bench, int, set[str]], Result]] = {
    "kills": try_kills,
    "errors": try_errors,
    "full": try_full,
    "interrupts": try_interrupts,
    "limits": try_limits,
}


def main() -> int:
    """Ask the questions, and print what did not hold."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("question", nargs="?", choices=[*QUESTIONS])
    parser.add_argument("--times", type=int, default=6, help="faults of each command")
    parser.add_argument("--only", default="", help="names of commands, such as build-table,index")
    given = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="bushel-faults-") as top:
        bench = Bench(Path(top))
        for name in [given.question] if given.question else QUESTIONS:
            begun = time.time()
            result = QUESTIONS[name](bench, given.times, set(filter(None, given.only.split(","))))
            wrong += len(result.wrong)
            held = f"{result.tried - len(result.wrong)} of {result.tried} held"
            sys.stdout.write(f"{name}: {held}, {time.time() - begun:.0f} s\n")
            sys.stdout.flush()
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
