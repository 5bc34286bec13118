import tensorflow as tf

SPEC = {
    "age": tf.io.FixedLenFeature([], tf.int64),
    "hours": tf.io.FixedLenFeature([], tf.float32),
    "gain": tf.io.FixedLenFeature([], tf.float32),
    "married": tf.io.FixedLenFeature([], tf.int64),
    "label": tf.io.FixedLenFeature([], tf.int64),
}
NAMES = [k for k in SPEC if k != "label"]


def load(split, batch):
    def parse(batch_of_records):
        row = tf.io.parse_example(batch_of_records, SPEC)
        x = tf.stack([tf.cast(row[k], tf.float32) for k in NAMES], axis=1)
        return x, tf.cast(row["label"], tf.float32)

    ds = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(f"data/adult/{split}-*")))
    if split == "train":
        ds = ds.shuffle(600)
    return ds.batch(batch).map(parse)
