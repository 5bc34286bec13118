"""The first batch of many shards, globally shuffled.

    python benchmarks/many_shards.py                       1,000 shards with 10 million records on a disk
    python benchmarks/many_shards.py --limited             10,000 shards with 100 million records in a limited store

The shards are hard links to one file, each with a real index. In a store, time, requests and memory are also shown for
all shards: after enough batches that each shard had a record in one.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from object_store import counts_of, limited
from storage_server import environment

import bushel
from bushel.records.index import build_index, index_path, save_index
from bushel.records.manifest import read_manifest, write_manifest

CHILD = """
import sys, time
def anonymous():
    return next(int(line.split()[1]) // 1024 for line in open("/proc/self/status") if line.startswith("RssAnon"))
import bushel, numpy
before, begin = anonymous(), time.perf_counter()
train = bushel.open(sys.argv[1])["train"]
feed = bushel.batches(train, batch_size=256, order=bushel.Order(shuffle=True, seed=1))
batch = next(feed)
seconds = time.perf_counter() - begin
for _ in zip(range(2000), feed):
    pass
print(f"{len(train):,} records in {len(train.paths):,} shards: first batch after {seconds:.3f} s; "
      f"RssAnon {anonymous()} MB, of which {anonymous() - before} MB since the import")
"""


STORE_CHILD = """
import sys, time, warnings
warnings.simplefilter("ignore")
def memory():
    lines = [line.split() for line in open("/proc/self/status") if line.startswith("Rss")]
    found = {name: int(size) // 1024 for name, size, _ in lines}
    return f"RssAnon {found['RssAnon:']} MB, mapped files {found['RssFile:']} MB"
import bushel
begin = time.perf_counter()
train = bushel.open(sys.argv[1])["train"]
took = lambda: f"after {time.perf_counter() - begin:.2f} s; {memory()}"
print(f"{len(train):,} records in {len(train.paths):,} shards: open {took()}")
feed = bushel.batches(train, batch_size=256, order=bushel.Order(shuffle=True, seed=1), epochs=None)
next(feed)
print(f"first batch {took()}", flush=True)
sys.stdin.readline()
for _ in zip(range(int(sys.argv[2])), feed):
    pass
located = sum(shard.is_located for shard in train.shards.shards)
print(f"{located:,} shards located by {int(sys.argv[2]):,} more batches {took()}")
"""


def in_store(shards: int, records: int) -> None:
    """The same in a store that is as slow as a real one."""
    with tempfile.TemporaryDirectory() as top:
        data = Path(top) / "bucket" / "data"
        x = np.zeros((records, 8), np.float32)
        bushel.build({"x": x, "label": np.arange(records)}, data, shards=1, run=bushel.Run(workers=1))
        link_shards(data, shards)
        with limited(Path(top), 50, 30) as endpoint:
            child = subprocess.Popen(
                [sys.executable, "-c", STORE_CHILD, "s3://bucket/data", str(shards * 8 // 256)],
                env={**os.environ, **environment(endpoint, top), "BUSHEL_CACHE_SIZE": "1G"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert child.stdin is not None
            assert child.stdout is not None
            print(child.stdout.readline() + child.stdout.readline() + f"  {counts_of(endpoint)}", flush=True)
            child.stdin.write("\n")
            child.stdin.close()
            print(child.stdout.read() + f"  {counts_of(endpoint)}")
            child.wait()


def link_shards(data: Path, count: int) -> None:
    """Have one shard of a dataset many times."""
    manifest = read_manifest(data)
    (name, split), *_ = manifest.splits.items()
    first = split.shards[0]
    names = [f"{name}-{number:05d}-of-{count:05d}.tfrecord" for number in range(count)]
    for other in names:
        os.link(data / first.path, data / other)
        os.link(index_path(data / first.path), index_path(data / other))
    (data / first.path).unlink()
    index_path(data / first.path).unlink()
    shards = [msgspec.structs.replace(first, path=other) for other in names]
    splits = {name: msgspec.structs.replace(split, shards=shards)}
    write_manifest(data, msgspec.structs.replace(manifest, splits=splits))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int)
    parser.add_argument("--records", type=int, default=10_000, help="in one shard")
    parser.add_argument("--limited", action="store_true", help="from a store: 50 MB/s a connection, 30 ms a request")
    arguments = parser.parse_args()
    arguments.shards = arguments.shards or (10_000 if arguments.limited else 1000)
    if arguments.limited:
        in_store(arguments.shards, arguments.records)
        return
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder) / f"train-00000-of-{arguments.shards:05d}.tfrecord"
        with bushel.Writer(first) as writer:
            x = np.zeros((arguments.records, 8), np.float32)
            writer.write_batch({"x": x, "label": np.arange(arguments.records)})
        index = build_index(first, label="label")
        save_index(first, index)
        for number in range(1, arguments.shards):
            shard = first.with_name(f"train-{number:05d}-of-{arguments.shards:05d}.tfrecord")
            os.link(first, shard)
            save_index(shard, index)
        for _ in range(3):
            subprocess.run([sys.executable, "-c", CHILD, folder], check=True)


if __name__ == "__main__":
    main()
