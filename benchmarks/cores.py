"""How building, checking and reading grow with the number of cores.

    python benchmarks/cores.py                           every row, for 1, 2, 4, ... up to all cores
    python benchmarks/cores.py --only parquet csv        some rows; each takes less than three minutes
    python benchmarks/cores.py --cores 1 16 --scale 0.1  other cores, smaller jobs

Each job runs in a process of its own that is pinned to N cores with taskset, with N workers or threads, on a memory
disk where there is one. The processor seconds, the memory of the process tree and what the machine itself gives are
printed too. For builds the slowest stages follow, with the cores that they kept busy (`bushel build --timings`).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Job:
    """One row of the table: what is made once, and what is timed."""

    name: str
    unit: str
    count: int  # at full size
    make: Callable[[Path, int], None]
    work: Callable[[Path, int, int], Any]  # folder, count, cores; returns what it wants to say of stages


def parquet(folder: Path, count: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    with pq.ParquetWriter(folder / "rows.parquet", table_of(rng, 1).schema, compression="snappy") as writer:
        for start in range(0, count, 250_000):
            writer.write_table(pa.table(table_of(rng, min(250_000, count - start))), row_group_size=125_000)


def table_of(rng: np.random.Generator, rows: int) -> Any:
    import pyarrow as pa

    words = np.array(["red", "green", "blue", "a longer word", "x"])
    columns: dict[str, Any] = {f"f{i}": rng.standard_normal(rows).astype("float32") for i in range(8)}
    columns |= {f"i{i}": rng.integers(0, 10**i, rows) for i in range(1, 7)}
    columns |= {f"s{i}": words[rng.integers(0, len(words), rows)] for i in range(2)}
    columns["label"] = rng.integers(0, 10, rows)
    return pa.table(columns)


def csv(folder: Path, count: int) -> None:
    import pyarrow.csv as pc

    rng = np.random.default_rng(0)
    with (folder / "rows.csv").open("wb") as file:
        for start in range(0, count, 250_000):
            options = pc.WriteOptions(include_header=start == 0)
            pc.write_csv(table_of(rng, min(250_000, count - start)), file, options)


def documents(folder: Path, count: int) -> None:
    rng = np.random.default_rng(0)
    words = [f"word{n}" for n in range(5000)]
    texts = [json.dumps(" ".join(words[i] for i in rng.integers(0, 5000, 120))) for _ in range(5000)]
    with (folder / "texts.jsonl").open("w") as file:
        for number in range(count):
            file.write(f'{{"number": {number}, "text": {texts[number * 7919 % 5000]}, "label": {number % 4}}}\n')


def photos(folder: Path, count: int) -> None:
    import simplejpeg

    rng = np.random.default_rng(0)
    originals = []
    for _ in range(64):
        coarse = rng.integers(0, 255, (25, 25, 3)).astype(np.uint8)
        pixels = np.kron(coarse, np.ones((20, 20, 1), np.uint8)) ^ rng.integers(0, 24, (500, 500, 3)).astype(np.uint8)
        originals.append(simplejpeg.encode_jpeg(np.ascontiguousarray(pixels), quality=85))
    for number in range(count):
        place = folder / "photos" / str(number % 10)
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.jpg").write_bytes(originals[number % 64] + number.to_bytes(4, "little"))


def records(folder: Path, count: int) -> None:
    import bushel

    rows = table_of(np.random.default_rng(0), count)
    columns = {name: rows.column(name).to_numpy() for name in rows.column_names}
    texts = {name: [str(text) for text in columns.pop(name)] for name in ("s0", "s1")}
    bushel.build({**columns, **texts}, folder / "data", shards=max(16, count // 250_000))


def floats(folder: Path, count: int) -> None:
    import bushel

    x = np.random.default_rng(0).standard_normal((count, 64), np.float32)
    bushel.build({"x": x, "label": np.arange(count) % 10}, folder / "data", shards=max(16, count // 100_000))


def build(name: str, **options: Any) -> Callable[[Path, int, int], Any]:
    def work(folder: Path, count: int, cores: int) -> Any:
        import bushel
        from bushel import sources

        told = dict(options)
        given = told.pop("source", {})  # with no options the path is given, so that all workers help to open it
        source = sources.open_source(folder / name, **given) if given else folder / name
        built = bushel.build(source, folder / "out", run=bushel.Run(workers=cores, overwrite=True), **told)
        return told_of(built.timings)

    return work


def told_of(timings: Any) -> Any:
    return {stage: {"seconds": timing.seconds, "cores": timing.cores} for stage, timing in timings.items()}


def build_resized(folder: Path, count: int, cores: int) -> Any:
    from bushel import transforms as t

    return build("photos", transforms=[t.resize_encoded("image", 224, 224, form="jpeg")])(folder, count, cores)


def build_tokens(folder: Path, count: int, cores: int) -> Any:
    from bushel import transforms as t

    return build("texts.jsonl", transforms=[t.tokenise(size=5000, length=128)])(folder, count, cores)


def check(folder: Path, count: int, cores: int) -> Any:
    import bushel

    return told_of(bushel.check(folder / "data").timings)


def read(*, shuffle: bool, epochs: int) -> Callable[[Path, int, int], Any]:
    def work(folder: Path, count: int, cores: int) -> None:
        import bushel

        split = bushel.open(folder / "data")["train"]
        order = bushel.Order(shuffle=shuffle, seed=0)
        for _ in bushel.batches(
            split, batch_size=1024, order=order, epochs=epochs, workers=bushel.Workers(threads=cores)
        ):
            pass

    work.epochs = epochs  # type: ignore[attr-defined]
    return work


JOBS = {
    job.name: job
    for job in (
        Job("parquet", "rows", 10_000_000, parquet, build("rows.parquet")),
        Job("csv", "rows", 4_000_000, csv, build("rows.csv")),
        Job("headers", "images", 64_000, photos, build("photos", source={"verify": "headers"})),
        Job("decode", "images", 16_000, photos, build("photos")),  # images are decoded by default
        Job("resize", "images", 8_000, photos, build_resized),
        Job("text", "documents", 2_000_000, documents, build("texts.jsonl")),
        Job("tokens", "documents", 800_000, documents, build_tokens),
        Job("check", "records", 6_000_000, records, check),
        Job("read", "records", 6_000_000, records, read(shuffle=False, epochs=8)),
        Job("shuffled", "records", 6_000_000, records, read(shuffle=True, epochs=6)),
        Job("floats", "records", 2_000_000, floats, read(shuffle=False, epochs=64)),
        Job("floats-shuffled", "records", 2_000_000, floats, read(shuffle=True, epochs=32)),
    )
}


def child(name: str, folder: Path, count: int, cores: int) -> None:
    """Do one job and print its figures as JSON; run in a process that is pinned."""
    job = JOBS[name]
    shutil.rmtree(folder / "out", ignore_errors=True)  # of the run before
    peak = Peak()
    began, spent = time.perf_counter(), cpu_seconds()
    with peak:
        timings = job.work(folder, count, cores)
    seconds = time.perf_counter() - began
    done = count * getattr(job.work, "epochs", 1)
    found = {"rate": done / seconds, "seconds": seconds, "cpu": cpu_seconds() - spent, "memory": peak.bytes}
    print(json.dumps({**found, "timings": timings}, default=str))


def cpu_seconds() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


class Peak:
    """The most memory of this process and its children, looked at ten times per second; shared pages count once."""

    def __init__(self) -> None:
        self.bytes = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.1):
            self.bytes = max(self.bytes, sum(anonymous_bytes(pid) for pid in tree(os.getpid())))


def tree(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(found for text in children for found in tree(int(text)))]


def anonymous_bytes(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss_Anon"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def measure(job: Job, folder: Path, count: int, cores: int) -> dict[str, Any]:
    pinned = ",".join(map(str, sorted(os.sched_getaffinity(0))[:cores]))
    command = [
        "taskset",
        "-c",
        pinned,
        sys.executable,
        __file__,
        "--child",
        job.name,
        str(folder),
        str(count),
        str(cores),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{job.name} on {cores} cores failed:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def machine(cores: int) -> str:
    """What memcpy and SHA-256 reach with this many threads."""
    import hashlib
    from concurrent.futures import ThreadPoolExecutor

    blocks = [np.ones(64 << 20, np.uint8) for _ in range(cores)]
    targets = [np.empty_like(block) for block in blocks]

    def rate(work: Callable[[int], object]) -> float:
        with ThreadPoolExecutor(cores) as pool:
            list(pool.map(work, range(cores)))
            began = time.perf_counter()
            for _ in range(4):
                list(pool.map(work, range(cores)))
            return 4 * cores * (64 << 20) / (time.perf_counter() - began) / 1e9

    copy = rate(lambda i: np.copyto(targets[i], blocks[i]))
    digest = rate(lambda i: hashlib.sha256(blocks[i]).digest())
    return f"memcpy {copy:.1f} GB/s, SHA-256 {digest:.2f} GB/s"


def show(job: Job, cores: list[int], found: list[dict[str, Any]]) -> None:
    for n, row in zip(cores, found, strict=True):
        grew = row["rate"] / found[0]["rate"]
        print(
            f"{job.name:16} {n:3} cores {row['rate']:12,.0f} {job.unit}/s  x{grew:4.1f}  {row['seconds']:6.1f} s  "
            f"{row['cpu']:6.1f} cpu s  {row['memory'] / 2**20:6,.0f} MiB",
            flush=True,
        )
    if found[-1].get("timings"):
        for stage, told in sorted(found[-1]["timings"].items(), key=lambda pair: -pair[1]["seconds"])[:8]:
            print(f"    {stage:12} {told['seconds']:6.2f} s, {told['cores']:.1f} cores busy", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        name, folder, count, cores = sys.argv[2:6]
        return child(name, Path(folder), int(count), int(cores))
    everyone = len(os.sched_getaffinity(0))
    steps = [n for n in (1, 2, 4, 8, 16, 32, 64, 128) if n < everyone] + [everyone]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(JOBS), choices=list(JOBS))
    parser.add_argument("--cores", nargs="*", type=int, default=steps)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full size")
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm") if Path("/dev/shm").is_dir() else None)
    told = parser.parse_args()
    for n in told.cores:
        print(f"machine          {n:3} cores {machine(n)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="bushel-cores-", dir=told.folder, ignore_cleanup_errors=True) as place:
        jobs = [JOBS[name] for name in told.only]
        counts = [max(1000, int(job.count * told.scale)) for job in jobs]
        folders = [Path(place) / f"{job.make.__name__}-{count}" for job, count in zip(jobs, counts, strict=True)]
        for at, (job, count, folder) in enumerate(zip(jobs, counts, folders, strict=True)):
            if not folder.exists():
                folder.mkdir()
                job.make(folder, count)
            show(job, told.cores, [measure(job, folder, count, n) for n in told.cores])
            if folder not in folders[at + 1 :]:  # no later job shares it
                shutil.rmtree(folder, ignore_errors=True)
    return None


if __name__ == "__main__":
    main()
