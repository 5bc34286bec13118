"""How fast `bushel check` is: file and schema rules beside the checksum alone, and a full check of many records.

python benchmarks/check.py [--gigabytes 2] [--records 10_000_000] [--folder DIR]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import bushel
from bushel import _native
from bushel.records.files import open_file
from bushel.storage import list_files

IMAGE_BYTES = 25_000
SHARD_RECORDS = 1_000_000


def write_images(folder: Path, size: int) -> None:
    """Images as far as checksums and schema are concerned: the mark of a JPEG and random bytes."""
    random = np.random.default_rng(0)
    shards = max(size // (256 << 20), 1)
    for shard in range(shards):
        with bushel.Writer(folder / f"images-{shard:05d}-of-{shards:05d}.tfrecord") as writer:
            for i in range(size // shards // IMAGE_BYTES):
                writer.write({"image": b"\xff\xd8\xff" + random.bytes(IMAGE_BYTES - 3), "label": i % 10})


def write_vectors(folder: Path, records: int) -> None:
    random = np.random.default_rng(0)
    shards = max(records // SHARD_RECORDS, 1)
    for shard in range(shards):
        with bushel.Writer(folder / f"train-{shard:05d}-of-{shards:05d}.tfrecord") as writer:
            for first in range(0, records // shards, 200_000):
                rows = min(200_000, records // shards - first)
                base = shard * (records // shards) + first
                writer.write_batch(
                    {
                        "x": random.standard_normal((rows, 64), dtype=np.float32),
                        "label": random.integers(0, 10, rows),
                        "id": [f"id-{base + i:09d}" for i in range(rows)],
                    }
                )


def checksum(folder: Path) -> None:
    """Nothing but the checksums, with as many threads as checking uses."""
    for path in list_files(folder):
        for chunk in open_file(path).chunks():
            assert not _native.verify(chunk.memory, chunk.extents, 2)


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """On the clock, and of the processor: others may be at work on this machine."""
    start, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - used


def compare_with_checksum(folder: Path, size: int) -> None:
    write_images(folder, size)
    checksum(folder)  # into the page cache
    alone, checked = [], []
    for _ in range(5):  # in turns, so that a busy machine is busy for both
        alone.append(seconds(lambda: checksum(folder)))
        checked.append(seconds(lambda: bushel.check(folder, select=["FIL", "SCH"])))
    total = sum(path.stat().st_size for path in list_files(folder))
    print(f"{total / 1e9:.2f} GB of {IMAGE_BYTES // 1000} kB images in the page cache, two threads, best of 5")
    for i, what in enumerate(("the clock", "the processor")):
        one, other = min(t[i] for t in alone), min(t[i] for t in checked)
        print(f"  by {what}: checksum alone {total / one / 1e9:.2f} GB/s,")
        print(f"    FIL and SCH rules {total / other / 1e9:.2f} GB/s, {one / other:.0%} of the checksum")


def full_check(folder: Path, records: int) -> None:
    """In a process of its own, whose memory is asked for while it runs: mapped files are the kernel's."""
    write_vectors(folder, records)
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "bushel", "check", str(folder)], stdout=subprocess.PIPE, text=True
    )
    anonymous = 0
    while process.poll() is None:
        anonymous = max(anonymous, anonymous_bytes(process.pid))
        time.sleep(0.05)
    took = time.perf_counter() - start
    assert process.stdout is not None
    cpu = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"full check of {records:,} records of 64 floats, label and id: {took:.1f} s, "
          f"{cpu.ru_utime + cpu.ru_stime:.1f} s of CPU, {anonymous / 2**20:.0f} MiB RssAnon")  # fmt: skip
    print(f"  {process.stdout.read().strip().splitlines()[-1]}")


def anonymous_bytes(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    except OSError:
        return 0
    return 0


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--gigabytes", type=float, default=2.0)
    options.add_argument("--records", type=int, default=10_000_000)
    options.add_argument("--folder", default=None, help="where to write the data (and leave nothing)")
    chosen = options.parse_args()
    print(f"{os.cpu_count()} cores, checksums by {_native.crc32c_engine()}")
    for work, size in ((compare_with_checksum, int(chosen.gigabytes * 1e9)), (full_check, chosen.records)):
        with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
            work(Path(folder), size)


if __name__ == "__main__":
    main()
