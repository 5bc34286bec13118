import tensorflow as tf

WIDTH = 16


def load(split: str, batch: int) -> tf.data.Dataset:
    spec = {"features": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

    def parse(batch_of_records):
        rows = tf.io.parse_example(batch_of_records, spec)
        x = tf.io.decode_raw(rows["features"], tf.float32)
        return tf.ensure_shape(x, (None, WIDTH)), rows["label"]

    ds = tf.data.TFRecordDataset(f"data/vectors/{split}.tfrecord")
    if split == "train":
        ds = ds.shuffle(400)
    return ds.batch(batch).map(parse)
