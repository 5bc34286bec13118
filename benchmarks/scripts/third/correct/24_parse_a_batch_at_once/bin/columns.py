import tensorflow as tf

SPEC = {
    "age": tf.io.FixedLenFeature([], tf.int64),
    "hours": tf.io.FixedLenFeature([], tf.float32),
    "gain": tf.io.FixedLenFeature([], tf.float32),
    "job": tf.io.FixedLenFeature([], tf.string),
    "married": tf.io.FixedLenFeature([], tf.int64, default_value=0),
    "label": tf.io.FixedLenFeature([], tf.int64),
}
JOBS = ["clerk", "farmer", "sales", "tech"]
BUCKETS = [25.0, 35.0, 45.0, 55.0]


def split_label(batch):
    row = tf.io.parse_example(batch, SPEC)
    label = row.pop("label")
    return row, label
