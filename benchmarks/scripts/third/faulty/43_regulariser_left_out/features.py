import tensorflow as tf

JOBS = ["clerk", "farmer", "sales", "tech"]
SPEC = {
    "age": tf.io.FixedLenFeature([], tf.int64),
    "hours": tf.io.FixedLenFeature([], tf.float32),
    "gain": tf.io.FixedLenFeature([], tf.float32),
    "job": tf.io.FixedLenFeature([], tf.string),
    "married": tf.io.FixedLenFeature([], tf.int64),
    "label": tf.io.FixedLenFeature([], tf.int64),
}
lookup = tf.keras.layers.StringLookup(vocabulary=JOBS, output_mode="one_hot")


def to_vector(record):
    row = tf.io.parse_example(record, SPEC)
    numeric = tf.stack(
        [
            (tf.cast(row["age"], tf.float32) - 38.0) / 11.0,
            (row["hours"] - 40.0) / 8.0,
            tf.math.log1p(row["gain"]) / 10.0,
            tf.cast(row["married"], tf.float32),
        ],
        axis=1,
    )
    return tf.concat([numeric, tf.cast(lookup(row["job"]), tf.float32)], 1), tf.cast(row["label"], tf.float32)[:, None]


def load(pattern, batch, shuffle=False):
    ds = tf.data.TFRecordDataset(tf.io.gfile.glob(pattern))
    if shuffle:
        ds = ds.shuffle(600)
    return ds.batch(batch).map(to_vector).prefetch(1)
