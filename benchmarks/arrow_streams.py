"""Records as a stream of Arrow, beside Arrow's own reader of Parquet with the same values.

python benchmarks/arrow_streams.py                    5 million rows of 64 floats, some minutes
python benchmarks/arrow_streams.py --rows 200000      smaller

Both readers go through all values once and hold one batch at a time. They take turns, and the best of several rounds
counts. Memory is the most that the process has for itself (RssAnon) while it reads, beyond what it had before.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import bushel

WIDTH = 64
PIECE = 100_000


def make(folder: Path, rows: int) -> None:
    """The same random floats as a dataset and as Parquet."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((rows, WIDTH), np.float32)
    bushel.build({"x": values}, folder / "data", order="source", shard_size=256 << 20)
    kind = pa.schema([("x", pa.list_(pa.float32(), WIDTH))])
    with pq.ParquetWriter(folder / "data.parquet", kind, compression="none") as writer:
        for at in range(0, rows, PIECE):
            flat = pa.array(values[at : at + PIECE].reshape(-1))
            writer.write_table(pa.table([pa.FixedSizeListArray.from_arrays(flat, WIDTH)], schema=kind))


def private_memory() -> int:
    """Bytes of memory that are this process's own."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) << 10


def measure(read: Callable[[], int], rows: int) -> tuple[float, int]:
    """Seconds, and the most memory that reading took."""
    before, most, is_over = private_memory(), 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not is_over.wait(0.02):
            most = max(most, private_memory() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    begun = time.perf_counter()
    assert read() == rows
    seconds = time.perf_counter() - begun
    is_over.set()
    watcher.join()
    return seconds, most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        make(folder, options.rows)
        split = bushel.open(folder / "data")["train"]
        readers: dict[str, Callable[[], int]] = {
            "stream of a split": lambda: sum(len(batch) for batch in pa.RecordBatchReader.from_stream(split)),
            "Parquet, pyarrow": lambda: sum(len(b) for b in pq.ParquetFile(folder / "data.parquet").iter_batches()),
            "to_arrow, in memory": lambda: len(split.to_arrow()),
        }
        seconds: dict[str, list[float]] = {name: [] for name in readers}
        memory: dict[str, int] = dict.fromkeys(readers, 0)
        for _ in range(options.rounds):
            for name, read in readers.items():
                spent, most = measure(read, options.rows)
                seconds[name].append(spent)
                memory[name] = max(memory[name], most)
    base = min(seconds["Parquet, pyarrow"])
    print("| reader | M rows/s, best | worst | of Parquet | memory |\n|---|---:|---:|---:|---:|")
    for name, spent in seconds.items():
        best, worst = options.rows / min(spent) / 1e6, options.rows / max(spent) / 1e6
        print(f"| {name} | {best:.2f} | {worst:.2f} | {base / min(spent):.2f} | {memory[name] / 1e6:.0f} MB |")


if __name__ == "__main__":
    main()
