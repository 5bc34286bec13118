from pathlib import Path

import tensorflow as tf

SCHEMA = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
}


def shards(root: str, pattern: str) -> list[str]:
    found = sorted(str(p) for p in Path(root).glob(pattern))
    if not found:
        raise FileNotFoundError(f"{root}/{pattern}")
    return found


def dataset(files: list[str], batch: int, training: bool) -> tf.data.Dataset:
    ds = tf.data.TFRecordDataset(files, num_parallel_reads=2)

    def parse(record):
        row = tf.io.parse_single_example(record, SCHEMA)
        image = tf.io.decode_jpeg(row["image/encoded"], channels=3)
        image = tf.ensure_shape(image, (32, 32, 3))
        return image, row["image/class/label"]

    if training:
        ds = ds.shuffle(512)
    return ds.map(parse, num_parallel_calls=2).batch(batch).prefetch(1)
