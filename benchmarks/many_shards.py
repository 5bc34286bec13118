"""The first batch of 1,000 shards with 10 million records, globally shuffled: python benchmarks/many_shards.py.

The shards are hard links to one file, each with a real index of its own.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import bushel
from bushel.records.index import build_index, save_index

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shards", type=int, default=1000)
    parser.add_argument("--records", type=int, default=10_000, help="in one shard")
    arguments = parser.parse_args()
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
