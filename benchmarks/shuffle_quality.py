"""How well a million records are shuffled, and what it costs: python benchmarks/shuffle_quality.py.

The files are as they often are, sorted by label. tf.data shuffles in a buffer; bushel permutes, or permutes blocks.
"""

import argparse
import gzip
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

import bushel
from bushel import Order
from bushel.reading.order import Quality, shuffle_quality


def tf_order(path: str, buffer: int, epoch: int) -> np.ndarray:
    import tensorflow as tf

    features = {"number": tf.io.FixedLenFeature([], tf.int64), "x": tf.io.FixedLenFeature([16], tf.float32)}
    data = tf.data.TFRecordDataset(path).shuffle(buffer, seed=epoch).batch(256)
    data = data.map(lambda records: tf.io.parse_example(records, features), num_parallel_calls=tf.data.AUTOTUNE)
    return np.concatenate([batch["number"] for batch in data.prefetch(2).as_numpy_iterator()])


def our_order(path: str, order: Order, epoch: int) -> np.ndarray:
    feed = bushel.batches(bushel.open(path)["all"], batch_size=256, order=order, epochs=epoch + 1)
    feed.restore({**feed.state(), "epoch": epoch})
    return np.concatenate([batch["number"] for batch in feed])


def judge(read: Callable[[int], np.ndarray]) -> tuple[Quality, float]:
    read(0)
    begin = time.perf_counter()
    first = read(0)
    seconds = time.perf_counter() - begin
    return shuffle_quality(first, read(1)), len(first) / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    records = parser.parse_args().records
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        path, compressed = str(Path(folder) / "numbers.tfrecord"), str(Path(folder) / "numbers.tfrecord.gz")
        columns = {"number": np.arange(records), "x": np.zeros((records, 16), np.float32)}
        foreign = str(Path(folder) / "foreign.tfrecord.gz")
        with bushel.Writer(path) as writer, bushel.Writer(compressed, compression="gzip") as packed:
            writer.write_batch(columns)
            packed.write_batch(columns)
        Path(foreign).write_bytes(gzip.compress(Path(path).read_bytes(), 1))
        runs = {
            "tf.data, buffer 1,000": lambda epoch: tf_order(path, 1000, epoch),
            "tf.data, buffer 10,000": lambda epoch: tf_order(path, 10_000, epoch),
            "bushel, in order": lambda epoch: our_order(path, Order(), epoch),
            "bushel, shuffle": lambda epoch: our_order(path, Order(shuffle=True), epoch),
            "bushel, blocks of 256, window 16": lambda epoch: our_order(path, Order(shuffle=True, block=256), epoch),
            "bushel, blocks of 1,024, window 64": lambda epoch: our_order(
                path, Order(shuffle=True, block=1024, window=64), epoch
            ),
            "bushel, gzip": lambda epoch: our_order(compressed, Order(shuffle=True), epoch),
            "bushel, gzip of others": lambda epoch: our_order(foreign, Order(shuffle=True), epoch),
        }
        names = ("coverage", "rank corr.", "neighbours", "displacement", "labels", "epoch corr.", "records/s")
        print(f"{records:,} records".ljust(36), *(f"{name:>12}" for name in names))
        for name, read in runs.items():
            quality, rate = judge(read)
            values = [f"{getattr(quality, field):>12.4f}" for field in quality.__struct_fields__]
            print(f"{name:<36}", *values, f"{rate:>12,.0f}", flush=True)


if __name__ == "__main__":
    main()
