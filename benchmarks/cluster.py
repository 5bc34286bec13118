"""What a Ray cluster gives and what it costs: two nodes against one, Ray against the local engine, its scheduler.

    python benchmarks/cluster.py                                    all questions, at a tenth of full size
    python benchmarks/cluster.py images --scale 1                   jobs of a minute or more
    python benchmarks/cluster.py rows --scale 1 --only local-1,ray-1 --folder /dev/shm/bench
    python benchmarks/cluster.py scheduler plan data --scale 1
    python benchmarks/cluster.py project                            from what was measured: 100 TB on 1 to 1,000 nodes
    python benchmarks/cluster.py costs                              the same: 100 million images in a store, 100 nodes

Nodes are raylets on this machine, each kept to one core, so it must have two that are otherwise idle. Times are of the
work alone: clusters are started, and workers have done a first small build, before the clock runs. What is compared is
the same work on the same cores, and must have the same SHA-256. `--only` takes some of the places where a job is done;
ratios are printed when their figures are there, and figures are kept in FOLDER/figures.json. The figures of
docs/clusters.md come from here.
"""

import argparse
import hashlib
import json
import logging
import math
import os
import resource
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_AUTH_MODE"] = "disabled"
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"

import numpy as np

import bushel
import bushel.ray
from bushel import Recipe, Run
from bushel.building.engines import LocalEngine
from bushel.building.planning.planner import encoder_of, plan_build
from bushel.data.columns import BytesColumn
from bushel.data.schema import Feature, Schema
from bushel.sources.protocol import Block, Listing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", nargs="*", default=list(QUESTIONS))
    parser.add_argument("--scale", type=float, default=0.1, help="share of the full size")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/bushel-bench-cluster"))
    parser.add_argument("--only", default=",".join(PLACES), help="where `images`, `rows` and `plan` are done")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    PLACES[:] = options.only.split(",")
    for question in options.questions:
        print(f"\n== {question}, scale {options.scale:g}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
        QUESTIONS[question](options.folder, options.scale)


PLACES = ["local-1", "ray-1", "local-2", "ray-2"]


def images(folder: Path, scale: float) -> None:
    """Photos of one megapixel decoded, resized, encoded: cores are what it takes."""
    count = max(64, int(10_000 * scale))
    source = {"path": make_photos(folder / f"photos-{count}", count)}
    resize = {"transform": "resize_encoded", "feature": "image", "height": 224, "width": 224}
    everywhere("images", folder, Recipe(source=source, transforms=[resize], shards=32), count)


def rows(folder: Path, scale: float) -> None:
    """Rows of 322 bytes, scattered and merged: every byte is written twice, so the disk takes part."""
    count = int(16_000_000 * scale)
    source = {"path": make_parquet(folder / f"rows-{count}", count)}
    everywhere("rows", folder, Recipe(source=source, shard_size=16 << 20), count)


def everywhere(job: str, folder: Path, recipe: Recipe, samples: int) -> None:
    """Build in each place, compare what was built, and keep the seconds."""
    found: dict[str, Any] = {}
    for place in PLACES:
        kind, count = place.split("-")
        with cores(range(int(count))) if kind == "local" else cluster(int(count)):
            run = Run(workers=int(count)) if kind == "local" else Run(engine=bushel.ray.engine())
            if kind == "ray":
                warm_up(folder)
            seconds = timed(f"{job}, {place}", samples, partial(build, recipe, folder, run))
        found |= {f"{job}_{place}": seconds, f"{job}_samples": samples}
        found.setdefault(f"{job}_bytes", sum(path.stat().st_size for path in (folder / "out").glob("*.tfrecord")))
        check_same(folder, f"{job}_{samples}_sha256")
    compare(job, note(folder, **found))


def check_same(folder: Path, name: str) -> None:
    """Every place must have made the same bytes."""
    digest = hashlib.sha256()
    for path in sorted((folder / "out").glob("*.tfrecord")):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    known = note(folder).get(name, digest.hexdigest())
    assert known == digest.hexdigest(), "other bytes than before"
    note(folder, **{name: known})


def compare(job: str, figures: dict[str, Any]) -> None:
    """The ratios whose figures are known."""
    for one, other, words in (
        ("ray-1", "ray-2", "two nodes / one (at least 1.6)"),
        ("ray-1", "local-1", "Ray / local time on one core (at most 1.15)"),
        ("ray-2", "local-2", "Ray / local time on two cores (at most 1.15)"),
    ):
        if f"{job}_{one}" in figures and f"{job}_{other}" in figures:
            ratio(words, figures[f"{job}_{one}"] / figures[f"{job}_{other}"])
    if f"{job}_ray-1" in figures:
        print(f"   {figures[f'{job}_bytes'] / 1e6 / figures[f'{job}_ray-1']:.1f} MB/s of records a core")


def warm_up(folder: Path) -> None:
    """Have every node start its worker, with all that it imports."""
    source = make_parquet(folder / "rows-small", 20_000)
    build(Recipe(source={"path": source}, shards=8), folder, Run(engine=bushel.ray.engine()))


def scheduler(folder: Path, scale: float) -> None:
    """What a task costs that does nothing, as the engine gives tasks out and each on its own."""
    import ray

    count = int(100_000 * scale)
    with cluster(2):
        engine = bushel.ray.engine()
        list(engine.run(abs, range(1000)))
        seconds = timed("empty tasks, by the engine", count, lambda: sum(1 for _ in engine.run(abs, range(count))))
        print(f"   {seconds / count * 1e6:,.0f} us a task")
        note(folder, seconds_a_task=seconds / count)
        nothing = ray.remote(num_cpus=1)(do_nothing)
        seconds = timed("empty Ray tasks, one by one", count, lambda: one_by_one(ray, nothing, count))
        print(f"   {seconds / count * 1e6:,.0f} us a Ray task")


def do_nothing() -> None:
    pass


def one_by_one(ray: Any, nothing: Any, count: int) -> None:
    given: list[Any] = []
    for _ in range(count):
        given.append(nothing.remote())
        if len(given) >= 64:
            _, given = ray.wait(given, num_returns=32)
    ray.get(given)


def plan(folder: Path, scale: float) -> None:
    """A real plan of ten million samples: keys and labels listed, split, stratified, ordered, cut into shards."""
    rows = int(10_000_000 * scale)
    source = make_parquet(folder / f"keys-{rows}", rows, floats=0)  # all that a plan reads
    for is_remote in [place.startswith("ray") for place in PLACES if place.endswith(("local-1", "ray-2"))]:
        with cluster(2) if is_remote else cores(range(2)):
            if is_remote:
                warm_up(folder)
            seconds, size = time_plan(source, folder / "planned", is_remote)
        name = "two nodes" if is_remote else "one process"
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / rows
        rate = f"{rows / seconds:12,.0f} samples/s; bytes a sample: {size / rows:.1f} on disk, {peak:.0f} in memory"
        print(f"   {name:38} {seconds:8.2f} s  {rate}", flush=True)
        note(folder, planned_a_second=rows / seconds, planned_bytes=size / rows)


def time_plan(source: str, out: Path, is_remote: bool) -> tuple[float, int]:
    """Seconds from the start until the first task is to be done, and the size of the plan."""
    shutil.rmtree(out, ignore_errors=True)
    engine = Stops(bushel.ray.engine() if is_remote else LocalEngine(1), is_remote)
    recipe = Recipe(source={"path": source, "key": "id"}, split="80/10/10", stratify="label")
    begun = time.perf_counter()
    with suppress(Planned):
        bushel.build_recipe(recipe, out, run=Run(engine=engine))
    seconds = time.perf_counter() - begun
    size = sum(path.stat().st_size for path in (out / "_journal" / "plan").iterdir())
    shutil.rmtree(out)
    return seconds, size


def names(folder: Path, scale: float) -> None:
    """The plan of 100 million made-up names, of which nothing is read: memory of the program that builds."""
    count = int(100_000_000 * scale)
    peak = Peak()
    seconds = timed("names", count, partial(plan_names, folder / "names", count))
    print(f"   {peak.anonymous() / count:.1f} bytes a sample, {peak.anonymous() / 1e6:,.0f} MB in all (RssAnon)")
    note(folder, names_a_second=count / seconds, names_count=count, names_memory=peak.anonymous())


def plan_names(out: Path, count: int) -> None:
    out.mkdir(parents=True, exist_ok=True)
    try:
        recipe = Recipe(split="80/10/10", stratify="label")
        source = Names(count)
        plan_build(source, recipe, encoder_of(source, recipe, ()), out)
    finally:
        shutil.rmtree(out)


def listing(folder: Path, scale: float) -> None:
    """One flat folder of a store with 20 million made-up names, listed in parts by threads."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from object_store import counts_of, limited
    from storage_server import environment

    from bushel.sources.folders import files_of, walk
    from bushel.storage import as_path

    count = int(20_000_000 * scale)
    (folder / "made-up").write_bytes(b"")
    with limited(folder, 50, 0, count) as endpoint:
        os.environ.update(environment(endpoint, str(folder)))
        peak, busy = Peak(), time.process_time()
        timed("listing", count, lambda: walk(as_path("s3://made-up/flat"), files_of("images")))
        seconds, requests = time.process_time() - busy, counts_of(endpoint)["LIST requests"]
    said = f"{requests:,} requests, {seconds / count * 1e6:.1f} us of the processor a name"
    print(f"   {said}, {peak.anonymous() / 1e6:,.0f} MB (RssAnon)")
    note(folder, listed_requests=requests / count, listed_seconds=seconds / count)


class Names:
    """A source of made-up names: a thousand folders, which are its partitions and its classes."""

    reads = "random"
    label = "label"

    def __init__(self, count: int, folders: int = 1000) -> None:
        self.count, self.folders = count, folders

    def partitions(self) -> int:
        return self.folders

    def schema(self) -> Any:
        return Schema(features={"label": Feature(dtype="int64"), "key": Feature(dtype="str")})

    def list(self, partition: int, columns: Any) -> Listing:
        rows = np.arange(partition, self.count, self.folders)
        digits = np.char.zfill((rows // self.folders).astype(f"S{9}"), 9)
        text = np.frombuffer(b"".join([b"%04d/IMG_%s.jpg" % (partition, name) for name in digits.tolist()]), np.uint8)
        keys = BytesColumn(np.arange(len(rows) + 1) * (len(text) // max(1, len(rows))), text)
        label = np.full(len(rows), partition)
        return Listing(keys, {"label": label, "key": keys}, np.full(len(rows), 100_000), {})

    def read(self, partition: int, rows: Any) -> Any:
        keys = self.list(partition, ()).keys.take(rows)
        yield Block(np.asarray(rows), {"label": np.full(len(rows), partition), "key": keys}, [])

    def locate(self, partition: int, row: int) -> str:
        return f"{partition}/{row}"

    def fingerprint(self) -> str:
        return str(self.count)

    def describe(self) -> dict[str, Any]:
        return {}


class Peak:
    """How much memory of its own this process had at most, since this was made."""

    def __init__(self) -> None:
        self._most, self._before = 0, self._now()
        threading.Thread(target=self._watch, daemon=True).start()

    def _now(self) -> int:
        status = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))

    def _watch(self) -> None:
        while True:
            self._most = max(self._most, self._now())
            time.sleep(0.05)

    def anonymous(self) -> int:
        return max(0, self._most - self._before)


class Planned(Exception):
    """The plan is there."""


class Stops:
    """An engine that stops when the first task of the build is to be done."""

    def __init__(self, inner: Any, is_remote: bool) -> None:
        self.inner, self.is_remote = inner, is_remote

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def run(self, work: Any, tasks: Any, *, memory: int = 0) -> Any:
        if memory:
            raise Planned
        return self.inner.run(work, tasks)


def data(folder: Path, scale: float) -> None:
    """Ray Data over bushel's reader against Ray's own `read_tfrecords`, on the tabular set, both on two nodes."""
    import ray.data

    rows, few = max(200_000, int(5_000_000 * scale)), max(2_000, int(60_000 * scale))
    for name, count in (("table", rows), ("few", few)):
        source = make_parquet(folder / f"rows-{count}", count)
        build(Recipe(source={"path": source}, shards=8), folder, Run(), name)
    with cluster(2):
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = context.verbose_stats_logs = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        consume(bushel.ray.dataset(folder / "few"))
        ours = timed("bushel.ray.dataset", rows, lambda: consume(bushel.ray.dataset(folder / "table"))) / rows
        files = [str(path) for path in sorted((folder / "few").glob("*.tfrecord"))]
        read = partial(ray.data.read_tfrecords, files, file_extensions=None)
        theirs = timed("ray.data.read_tfrecords", few, lambda: consume(read())) / few
    ratio("bushel / Ray, records a second (at least 50)", theirs / ours)


def consume(dataset: Any) -> None:
    for _ in dataset.iter_batches(batch_size=4096, batch_format="pyarrow"):
        pass


def note(folder: Path, **figures: Any) -> dict[str, Any]:
    """Keep figures for `project`; all that are known."""
    path = folder / "figures.json"
    known = {**(json.loads(path.read_text()) if path.exists() else {}), **figures}
    if figures:
        path.write_text(json.dumps(known, indent=2))
    return known


PROJECTED = ("planned_a_second", "planned_bytes", "seconds_a_task", "rows_bytes", "rows_ray-1", "rows_ray-2")
TOTAL, SAMPLES, TASKS, CORES = 100e12, 100e6, 100e3, 32  # bytes; of 1 MB; shards of 1 GB; of a node


def project(folder: Path, _: float) -> None:
    """100 TB of samples of 1 MB in shards of 1 GB, on nodes of 32 cores, from the figures measured and nothing else."""
    figures = note(folder)
    if missing := [name for name in PROJECTED if name not in figures]:
        raise SystemExit(f"{folder}: {', '.join(missing)} not measured: run `rows scheduler plan` with it first")
    planning, giving_out = SAMPLES / figures["planned_a_second"], TASKS * figures["seconds_a_task"]
    core, gain = figures["rows_bytes"] / figures["rows_ray-1"], figures["rows_ray-1"] / figures["rows_ray-2"]
    print(f"   {core / 1e6:.1f} MB/s of records a core, two nodes {gain:.2f} of one")
    print(f"   plan {planning:,.0f} s, {SAMPLES * figures['planned_bytes'] / 1e9:.1f} GB; tasks {giving_out:,.0f} s")
    print("   | nodes | cores | work | all of it | read and written | what limits |\n   |---|---|---|---|---|---|")
    for count in (1, 10, 100, 1000):
        rate = count * CORES * core * gain / 2
        work = TOTAL / rate
        limit = "giving out tasks" if giving_out > work else "the plan" if planning > work / 4 else "cores"
        times = f"{work / 3600:,.2f} h | {(planning + max(work, giving_out)) / 3600:,.2f} h"
        print(f"   | {count:,} | {count * CORES:,} | {times} | {2 * rate / 1e9:,.1f} GB/s | {limit} |")


IMAGES, IMAGE_BYTES, SHARDS, NODES, BATCH = 100_000_000, 100_000, 10_000, 100, 64
COSTED = ("images_samples", "images_ray-1", "images_ray-2", "names_memory", "planned_bytes", "listed_seconds")


def costs(folder: Path, _: float) -> None:
    """100 million images of 100 kB in 10,000 shards, in a store, on 100 nodes, from figures measured and constants."""
    from bushel.storage import cache, stores

    figures = note(folder)
    if missing := [name for name in COSTED if name not in figures]:
        raise SystemExit(f"{folder}: {', '.join(missing)} not measured: run `images names plan listing` with it first")
    gain = figures["images_ray-1"] / figures["images_ray-2"] / 2
    core = figures["images_samples"] / figures["images_ray-1"]
    size, plan_bytes = IMAGES * IMAGE_BYTES, IMAGES * figures["planned_bytes"]
    request = cache.BLOCK_BYTES * cache.MOST_AT_ONCE
    parts, fetches = (SHARDS * math.ceil(size / SHARDS / each) for each in (stores.PART_BYTES, request))
    share = IMAGES // NODES // BATCH
    shared = share * (BATCH * IMAGE_BYTES + cache.BLOCK_BYTES)  # half a block at each end of a batch
    listed = IMAGES * figures["listed_seconds"]
    told = f"{figures['names_memory'] / 1e9:.1f} GB with {figures['names_count']:,} names"
    lines = {
        "listing the source": f"{IMAGES * figures['listed_requests']:,.0f} requests, {listed:,.0f} s of one core",
        "reading images": f"{IMAGES:,} requests, {size / 1e12:g} TB",
        "writing shards and indexes": f"{2 * SHARDS:,} objects, {parts:,} requests for parts",
        "plan in the store": f"{plan_bytes / 1e9:.1f} GB, read by each node with {plan_bytes / request:,.0f} requests",
        "memory of the program that builds": told,
        "planning": f"{IMAGES / figures['names_a_second']:,.0f} s",
        "decoding, resizing, encoding": f"{IMAGES / (NODES * CORES * core * gain):,.0f} s at {core:,.0f} images a core",
        "bytes as they are, 1 GB/s a node": f"{2 * size / NODES / 1e9 / 60:.1f} min",
        "reading in order, one node": f"{fetches:,} requests and {SHARDS:,} for indexes, {12 * IMAGES / 1e9:.1f} GB",
        "reading in order, a node of all": f"{share:,} requests and {SHARDS:,} for indexes, {shared / 1e9:,.0f} GB",
        "shuffled without a cache": f"{IMAGES // NODES:,} requests a node and {SHARDS:,} for indexes",
        "lengths of records, shared by a node": f"{4 * IMAGES / 1e9:.1f} GB",
        "download of a node's share": f"{size / NODES / (16 * 50e6):,.0f} s with 16 requests of 50 MB/s",
    }
    for what, figure in lines.items():
        print(f"   | {what} | {figure} |")


QUESTIONS: dict[str, Callable[[Path, float], None]] = {
    "images": images,
    "rows": rows,
    "scheduler": scheduler,
    "plan": plan,
    "names": names,
    "listing": listing,
    "data": data,
    "project": project,
    "costs": costs,
}


def build(recipe: Recipe, folder: Path, run: Run, name: str = "out") -> None:
    shutil.rmtree(folder / name, ignore_errors=True)
    bushel.build_recipe(recipe, folder / name, run=run)


def make_parquet(folder: Path, rows: int, files: int = 16, floats: int = 16) -> str:
    """Sixteen floats, a key and a class a row; made once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not folder.exists():
        making = folder.with_suffix(".new")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir()
        for number, part in enumerate(np.array_split(np.arange(rows), files)):
            random = np.random.default_rng(number)
            columns: dict[str, Any] = {f"x{i:02d}": random.random(len(part), np.float32) for i in range(floats)}
            columns |= {"id": part, "label": random.integers(0, 10, len(part))}
            pq.write_table(pa.table(columns), making / f"{number:03d}.parquet", row_group_size=100_000)
        making.rename(folder)
    return str(folder / "*.parquet")


def make_photos(folder: Path, count: int, different: int = 50) -> str:
    """JPEGs of 1152x896 in ten classes; the same few under many names, which no build can tell."""
    from PIL import Image

    if not folder.exists():
        making = folder.with_suffix(".new")
        shutil.rmtree(making, ignore_errors=True)
        for number in range(different):
            random = np.random.default_rng(number)
            coarse = Image.fromarray(random.integers(0, 256, (28, 36, 3), np.uint8))
            photo = coarse.resize((1152, 896), Image.Resampling.BICUBIC)
            (making / str(number % 10)).mkdir(parents=True, exist_ok=True)
            photo.save(making / str(number % 10) / f"{number:06d}.jpg", quality=90)
        for number in range(different, count):
            first = number % different
            os.link(making / str(first % 10) / f"{first:06d}.jpg", making / str(first % 10) / f"{number:06d}.jpg")
        making.rename(folder)
    return str(folder)


@contextmanager
def cores(wanted: Any) -> Iterator[None]:
    """Keep this process, and what it starts, to some cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, wanted)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def cluster(count: int) -> Iterator[None]:
    """So many nodes of one CPU, each on a core of its own; gone afterwards."""
    import ray
    from ray._common.utils import get_default_ray_temp_dir, try_to_create_directory
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="bushel-ray-", dir="/tmp")
    node = {"num_cpus": 1, "object_store_memory": 200 << 20}
    started = None
    try:
        head = {**node, "include_dashboard": False, "temp_dir": folder}
        try_to_create_directory(get_default_ray_temp_dir())  # where Ray notes the address, whatever `temp_dir` says
        with cores([0]):
            started = Cluster(initialize_head=True, head_node_args=head)
        for number in range(1, count):
            with cores([number]):
                started.add_node(**node)
        with cores(range(count)):
            # The program's own connection, which builds use and leave: their workers stay.
            ray.init(address=started.address, log_to_driver=False, logging_level="ERROR")
            yield
    finally:
        ray.shutdown()
        if started is not None:
            started.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def timed(name: str, count: int, work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    seconds = time.perf_counter() - begun
    print(f"   {name:38} {seconds:8.2f} s  {count / seconds:12,.0f} /s", flush=True)
    return seconds


def ratio(name: str, value: float) -> None:
    print(f"   {name:48} {value:6.2f}x", flush=True)


if __name__ == "__main__":
    main()
