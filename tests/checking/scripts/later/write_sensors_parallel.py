"""Written after the rules: each worker writes a shard of its own."""

import concurrent.futures
import contextlib

import numpy as np
import tensorflow as tf


def serialise(row, label):
    feature = {
        "x": tf.train.Feature(float_list=tf.train.FloatList(value=row)),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def write_shard(number):
    random = np.random.default_rng(number)
    with tf.io.TFRecordWriter(f"written-{number:05d}-of-00004.tfrecord") as writer:
        for _ in range(100):
            writer.write(serialise(random.normal(size=64), int(random.integers(5))))
    return number


def write_two(path_a, path_b, rows):
    with contextlib.ExitStack() as stack:
        writers = [stack.enter_context(tf.io.TFRecordWriter(path)) for path in (path_a, path_b)]
        for i, (row, label) in enumerate(rows):
            writers[i % 2].write(serialise(row, label))


if __name__ == "__main__":
    with concurrent.futures.ProcessPoolExecutor() as pool:
        print(list(pool.map(write_shard, range(4))))
