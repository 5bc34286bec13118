"""Reading datasets of an object store beside plain downloads of the same objects, and which client is faster.

    python benchmarks/object_store.py --gigabytes 3
    python benchmarks/object_store.py --gigabytes 3 --passes 15 --rounds 1 --no-clients \\
        --only download_one,records_in_order,download_four          each job takes a minute or about that

Starts moto's S3 server on loopback. What is compared takes turns, so that a busy machine slows all of it. moto has its
objects in memory and reads the whole object for each range of it: `download_ranges`, which asks for the ranges that
batches ask for and does nothing with them, says what that costs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from storage_server import environment, forget_clients, new_bucket, serving

SHARD_BYTES = 128 << 20
RECORD_FLOATS = 30_000  # 120 KB, about what an image takes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--passes", type=int, default=1, help="How often a job reads all of it.")
    parser.add_argument("--only", help="Some of the jobs that read, by name; none of them: `clients` alone.")
    parser.add_argument("--no-clients", action="store_true", help="Leave the comparison of clients out.")
    options = parser.parse_args()
    with prepared() as bucket:
        import bushel

        shards = max(2, round(options.gigabytes * (1 << 30) / SHARD_BYTES))
        upload(bucket, shards)
        split = bushel.open(f"{bucket}/data")["train"]
        size = sum(path.stat().st_size for path in split.paths)
        print(f"{len(split):,} records in {shards} shards, {size / 1e9:.2f} GB")
        if not options.no_clients:
            compare_clients(bucket, options.rounds)
        wanted = options.only.split(",") if options.only else list(READING)
        if wanted != ["clients"]:
            compare_reading(bucket, size, options.rounds, options.passes, wanted)


@contextmanager
def prepared() -> Iterator[str]:
    with serving() as endpoint, tempfile.TemporaryDirectory() as folder:
        os.environ.update(environment(endpoint, folder))
        yield new_bucket(endpoint)


def upload(bucket: str, shards: int) -> None:
    """One shard under many names, each with an index of its own: reading cannot tell."""
    import bushel
    from bushel.records.index import build_index, save_index
    from bushel.storage import as_path

    records = SHARD_BYTES // (RECORD_FLOATS * 4)
    x = np.random.default_rng(0).normal(size=(records, RECORD_FLOATS)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder) / "shard"
        with bushel.Writer(first) as writer:
            writer.write_batch({"x": x, "label": np.arange(records)})
        index = build_index(first)
        for number in range(shards):
            shard = as_path(f"{bucket}/data/train-{number:05d}-of-{shards:05d}.tfrecord")
            shard.put(first)
            save_index(shard, index)


def in_turns(rounds: int, **jobs: Callable[[], None]) -> dict[str, list[float]]:
    """Seconds of each job, the jobs one after another and all of it again."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            begin = time.perf_counter()
            job()
            seconds[name].append(time.perf_counter() - begin)
    return seconds


def compare_clients(bucket: str, rounds: int) -> None:
    """Whole objects, ranges in parallel, and many small objects: obstore and s3fs."""
    import obstore
    import s3fs

    from bushel.storage import as_path, stores

    name = bucket.removeprefix("s3://")
    theirs = s3fs.S3FileSystem(endpoint_url=os.environ["AWS_ENDPOINT_URL"])
    mine = stores._store("s3", name)
    shard = next(path for path in as_path(f"{bucket}/data").iterdir() if ".tfrecord" in path.name)
    whole, size = shard.key.name, shard.stat().st_size
    for number in range(300):
        (as_path(bucket) / "small" / str(number)).write_bytes(bytes(2000))
    step = 32 << 20
    ranges = [(start, min(start + step, size)) for start in range(0, size, step)]

    def with_threads(read: Callable[[Any], Any], parts: Any) -> None:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(read, parts))

    seconds = in_turns(
        rounds,
        obstore_whole=lambda: obstore.get(mine, whole).bytes() and None,
        s3fs_whole=lambda: theirs.cat_file(f"{name}/{whole}") and None,
        obstore_ranges=lambda: with_threads(lambda r: obstore.get_range(mine, whole, start=r[0], end=r[1]), ranges),
        s3fs_ranges=lambda: with_threads(lambda r: theirs.cat_file(f"{name}/{whole}", start=r[0], end=r[1]), ranges),
        obstore_small=lambda: with_threads(lambda i: obstore.get(mine, f"small/{i}").bytes(), range(300)),
        s3fs_small=lambda: with_threads(lambda i: theirs.cat_file(f"{name}/small/{i}"), range(300)),
    )
    print("\nclients, seconds (median): obstore, s3fs, and how many times faster obstore is")
    for what in ("whole", "ranges", "small"):
        one, other = (statistics.median(seconds[f"{client}_{what}"]) for client in ("obstore", "s3fs"))
        print(f"  {what:8} {one:7.3f} {other:7.3f} {other / one:6.2f}x")


READING = (
    "download_one",
    "records_in_order",
    "download_four",
    "download_ranges",
    "batches_in_order",
    "batches_in_blocks",
    "batches_shuffled",
)


def compare_reading(bucket: str, size: int, rounds: int, passes: int, wanted: list[str]) -> None:
    """Plain downloads, one at a time, four, and in ranges; reading in order; batches in order and shuffled."""
    import obstore

    import bushel
    from bushel.records.files import open_file
    from bushel.storage import list_files, stores

    files = list_files(f"{bucket}/data")
    store = stores._store("s3", bucket.removeprefix("s3://"))

    def download(threads: int) -> None:
        with ThreadPoolExecutor(threads) as pool:
            done = pool.map(lambda file: len(obstore.get(store, file.key.name).bytes()), files)
            assert sum(done) == size

    def download_ranges() -> None:
        step = 32 << 20
        ranges = [
            (file, at, min(at + step, file.known.size)) for file in files for at in range(0, file.known.size, step)
        ]
        with ThreadPoolExecutor(16) as pool:
            done = pool.map(lambda r: len(obstore.get_range(store, r[0].key.name, start=r[1], end=r[2])), ranges)
            assert sum(done) == size

    def in_order() -> None:
        found = sum(len(chunk.extents) for file in files for chunk in open_file(file).chunks())
        assert found == len(bushel.open(f"{bucket}/data")["train"])

    def batches(order: Any) -> Callable[[], None]:
        def read() -> None:
            shutil.rmtree(os.environ["BUSHEL_CACHE"], ignore_errors=True)
            forget_clients()
            split = bushel.open(f"{bucket}/data")["train"]
            assert sum(len(batch.rows) for batch in bushel.batches(split, batch_size=64, order=order)) == len(split)

        return read

    jobs: dict[str, Callable[[], None]] = {
        "download_one": lambda: download(1),
        "records_in_order": in_order,
        "download_four": lambda: download(4),
        "download_ranges": download_ranges,
        "batches_in_order": batches(bushel.Order()),
        "batches_in_blocks": batches(bushel.Order(shuffle=True, block=256, window=8)),
        "batches_shuffled": batches(bushel.Order(shuffle=True)),
    }

    def often(job: Callable[[], None]) -> Callable[[], None]:
        return lambda: [job() for _ in range(passes)] and None

    seconds = in_turns(rounds, **{name: often(job) for name, job in jobs.items() if name in wanted})
    plain = min(statistics.median(seconds[name]) for name in ("download_one", "download_four") if name in seconds)
    size *= passes
    print("\nreading with an empty cache: seconds (median), MB/s, share of the faster plain download")
    for name, taken in seconds.items():
        middle = statistics.median(taken)
        print(f"  {name:18} {middle:7.2f} {size / middle / 1e6:8.0f} {plain / middle:7.0%}")
    print(f"  peak memory of this process: {peak_memory() >> 20} MiB")


def peak_memory() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    main()
