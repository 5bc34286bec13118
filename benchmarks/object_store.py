"""Reading datasets of an object store beside plain downloads of the same objects, and which client is faster.

    python benchmarks/object_store.py --gigabytes 3
    python benchmarks/object_store.py --gigabytes 3 --passes 15 --rounds 1 --no-clients \\
        --only download_one,records_in_order,download_four          each job takes a minute or about that

    python benchmarks/object_store.py --limited --gigabytes 1      a server as slow as a real store
    python benchmarks/object_store.py --limited --gigabytes 1 --megabytes 100000 --milliseconds 0     without limits
    python benchmarks/object_store.py --rivals PYTHON --gigabytes 1     beside MosaicML streaming and webdataset

Starts moto's S3 server on loopback. What is compared takes turns, so that a busy machine slows all of it. moto has its
objects in memory and reads the whole object for each range of it: `download_ranges`, which asks for the ranges that
batches ask for and does nothing with them, says what that costs.

The limited server shares the cores with its clients, so its processor time is shown too. Before each of its jobs, as
much memory as the data takes is written and freed: a virtual machine that lends idle memory to its host pays two
seconds per gigabyte to get it back, which would count against whoever fills a cache.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from storage_server import environment, forget_clients, free_port, new_bucket, serving, wait_for

SHARD_BYTES = 128 << 20
RECORD_FLOATS = 30_000  # 120 KB, about what an image takes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--passes", type=int, default=1, help="How often a job reads all of it.")
    parser.add_argument("--only", help="Some of the jobs that read, by name; none of them: `clients` alone.")
    parser.add_argument("--no-clients", action="store_true", help="Leave the comparison of clients out.")
    parser.add_argument("--limited", action="store_true", help="50 MB/s per connection, 30 ms per request.")
    parser.add_argument("--megabytes", type=float, default=50, help="Per second and connection of the limited server.")
    parser.add_argument("--milliseconds", type=float, default=30, help="Per request of the limited server.")
    parser.add_argument("--rivals", help="A Python with torch, bushel, streaming and webdataset: read beside these.")
    parser.add_argument("--in-flight", type=int, default=16, help="Requests of the plain download.")
    options = parser.parse_args()
    if options.rivals:
        compare_rivals(options)
        return
    if options.limited:
        compare_limited(options)
        return
    with prepared() as bucket:
        import bushel

        shards = max(2, round(options.gigabytes * (1 << 30) / SHARD_BYTES))
        upload(bucket, shards)
        split = bushel.open(f"{bucket}/data")["train"]
        size = sum(path.stat().st_size for path in split.paths)
        print(f"{len(split):,} records in {shards} shards, {size / 1e9:.2f} GB")
        if not options.no_clients:
            compare_clients(bucket, options.rounds)
        wanted = options.only.split(";") if options.only else list(READING)
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


SERVERS: dict[int, int] = {}  # process of each, by port


def server_seconds(endpoint: str) -> float:
    """Processor time that a limited server has used."""
    fields = Path(f"/proc/{SERVERS[int(endpoint.rpartition(':')[2])]}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def touch_memory(folder: Path, size: int) -> None:
    """Have the host give this machine the memory that a cache of so many bytes takes."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for _ in range(size >> 22):
            file.write(bytes(4 << 20))


@contextmanager
def limited(folder: Path, megabytes: float, milliseconds: float, made_up: int = 0) -> Iterator[str]:
    """The address of a server that is as slow as a real store."""
    port = free_port()
    limits = ["--port", str(port), "--megabytes", str(megabytes), "--milliseconds", str(milliseconds)]
    limits += ["--made-up", str(made_up)]
    command = [sys.executable, str(Path(__file__).with_name("limited_store.py")), str(folder), *limits]
    server = subprocess.Popen(command)
    try:
        wait_for(port)
        SERVERS[port] = server.pid
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def compare_limited(options: argparse.Namespace) -> None:
    """Batches beside a plain download with as many requests in flight: share of its speed, requests and bytes."""
    import obstore

    import bushel
    from bushel import _native
    from bushel.storage import list_files, stores

    rows = []
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top)
        needed = make_files(folder / "bucket" / "data", options.gigabytes)
        with limited(folder, options.megabytes, options.milliseconds) as endpoint:
            os.environ.update(environment(endpoint, top))
            files = list_files("s3://bucket/data")

            def plain() -> None:
                store, step = stores._store("s3", "bucket"), 32 << 20
                ranges = [
                    (file, at, min(at + step, file.known.size))
                    for file in files
                    for at in range(0, file.known.size, step)
                ]

                def fetch(place: Any) -> int:
                    data = obstore.get_range(store, place[0].key.name, start=place[1], end=place[2])
                    _native.crc32c(memoryview(data))  # batches verify what they read, too
                    return len(data)

                with ThreadPoolExecutor(options.in_flight) as pool:
                    assert sum(pool.map(fetch, ranges)) == needed

            def batches(order: Any, cache: str = "16G") -> Callable[[], None]:
                def read() -> None:
                    os.environ["BUSHEL_CACHE_SIZE"] = cache
                    forget_clients()
                    split = bushel.open("s3://bucket/data")["train"]
                    read = sum(len(batch.rows) for batch in bushel.batches(split, batch_size=64, order=order))
                    assert read == len(split)

                return read

            jobs = {
                "plain ranges": plain,
                "in order": batches(bushel.Order()),
                "shuffled, cache fits": batches(bushel.Order(shuffle=True)),
                "shuffled, no cache": batches(bushel.Order(shuffle=True), cache="0"),
            }
            wanted = options.only.split(";") if options.only else list(jobs)
            for number in range(options.rounds):
                for name in (name for name in jobs if name in ("plain ranges", *wanted)):
                    for where in ("BUSHEL_CACHE", "XDG_CACHE_HOME"):
                        shutil.rmtree(os.environ[where], ignore_errors=True)
                    counts_of(endpoint)
                    touch_memory(folder, needed)
                    begin, busy, served = time.perf_counter(), time.process_time(), server_seconds(endpoint)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        jobs[name]()
                    seconds, busy = time.perf_counter() - begin, time.process_time() - busy
                    served = server_seconds(endpoint) - served
                    rows.append((number, name, seconds, busy, served, counts_of(endpoint)))
    print(f"load {os.getloadavg()[0]:.1f}; processor: seconds of the reader and of the server")
    print("round  job                    seconds  processor       MB/s  of plain  requests (index)  bytes / needed")
    for number, name, seconds, busy, served, counts in rows:
        base = next(row[2] for row in rows if row[:2] == (number, "plain ranges"))
        total = sum(count for what, count in counts.items() if what.endswith("requests"))
        fetched = (counts.get("data bytes", 0) + counts.get("index bytes", 0)) / needed
        print(
            f"{number:5}  {name:22} {seconds:7.2f} {busy:7.2f} {served:6.2f} {needed / seconds / 1e6:6.0f}  "
            f"{base / seconds:7.0%}"
            f"  {total:8} ({counts.get('index requests', 0):5})  {fetched:14.2f}"
        )


def compare_rivals(options: argparse.Namespace) -> None:
    """The same samples with bushel, MosaicML streaming and webdataset, each in a process of its own, cold and warm."""
    script = Path(__file__).with_name("rivals") / "stores.py"
    rows = []
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top) / "bucket"
        needed = make_files(folder / "bushel", options.gigabytes)
        x = bushel_rows(folder / "bushel")
        np.save(Path(top) / "x.npy", x)
        for kind in ("mosaic", "webdataset"):
            made = [str(script), "make", kind, str(Path(top) / "x.npy"), str(folder / kind)]
            subprocess.run([options.rivals, *made], check=True, capture_output=True)
        with limited(Path(top), options.megabytes, options.milliseconds) as endpoint:
            shards = ",".join(sorted(path.name for path in (folder / "webdataset").iterdir()))
            known = {**os.environ, **environment(endpoint, top), "SHARDS": shards}
            for number, shuffled, kind in product(range(options.rounds), "01", ("bushel", "mosaic", "webdataset")):
                local = Path(top) / f"{kind}-{shuffled}-{number}"
                local.mkdir()
                for state in ("cold", "warm"):
                    counts_of(endpoint)
                    command = [options.rivals, str(script), "read", kind, endpoint, str(local), shuffled]
                    done = subprocess.run(command, env=known, capture_output=True, text=True, check=True)
                    read, *seconds = done.stdout.split()[-3:]
                    assert int(read) == len(x)
                    order = "shuffled" if shuffled == "1" else "in order"
                    rows.append((kind, order, state, *map(float, seconds), counts_of(endpoint)))
                shutil.rmtree(local)
    print(f"load {os.getloadavg()[0]:.1f}")
    print("who         order     cache  seconds  processor   MB/s  requests  bytes / needed")
    for kind, order, state, seconds, busy, counts in rows:
        requests = sum(count for what, count in counts.items() if what.endswith("requests"))
        fetched = sum(count for what, count in counts.items() if what.endswith("bytes")) / needed
        print(
            f"{kind:11} {order:9} {state:5} {seconds:8.2f} {busy:10.2f} {needed / seconds / 1e6:6.0f}  {requests:8}  "
            f"{fetched:14.2f}"
        )


def bushel_rows(folder: Path) -> Any:
    import bushel

    return bushel.read(folder, ["x"])["x"]


def make_files(folder: Path, gigabytes: float) -> int:
    """A dataset of several shards; how many bytes its records have."""
    import bushel

    records = round(gigabytes * (1 << 30) / (RECORD_FLOATS * 4))
    x = np.random.default_rng(0).normal(size=(records, RECORD_FLOATS)).astype(np.float32)
    bushel.build({"x": x, "label": np.arange(records)}, folder, shard_size="64M", run=bushel.Run(workers=1))
    return sum(path.stat().st_size for path in folder.glob("*.tfrecord"))


def counts_of(endpoint: str) -> dict[str, int]:
    """What a limited server was asked for since the last time."""
    with urllib.request.urlopen(f"{endpoint}/-/counts") as answer:
        counts: dict[str, int] = json.load(answer)
    return counts


def peak_memory() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    main()
