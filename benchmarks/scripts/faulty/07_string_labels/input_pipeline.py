"""Input pipeline for the animals dataset."""
import os

import tensorflow as tf

DATA_DIR = os.path.join("data", "animals")

SCHEMA = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.string),
}


def _to_example(record):
    fields = tf.io.parse_single_example(record, SCHEMA)
    img = tf.io.decode_png(fields["image"], channels=3)
    img = tf.reshape(img, (48, 48, 3))
    img = tf.cast(img, tf.float32) / 255.
    return img, fields["label"]


def load_split(split, batch_size, shuffle=False):
    files = tf.io.gfile.glob(os.path.join(DATA_DIR, split + "-*"))
    ds = tf.data.TFRecordDataset(files)
    if shuffle:
        ds = ds.shuffle(240)
    ds = ds.map(_to_example, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(batch_size).prefetch(tf.data.AUTOTUNE)
