import tensorflow as tf

from labels import multi_hot

CLASSES = 6


def parse(record):
    row = tf.io.parse_single_example(
        record,
        {"image": tf.io.FixedLenFeature([], tf.string), "labels": tf.io.VarLenFeature(tf.int64)},
    )
    image = tf.ensure_shape(tf.io.decode_jpeg(row["image"], channels=3), (32, 32, 3))
    return tf.cast(image, tf.float32) / 255.0, tf.sparse.to_dense(row["labels"])


def load(path, batch, training):
    ds = tf.data.TFRecordDataset(path).map(parse)
    if training:
        ds = ds.shuffle(300)
    # at least one column, so that a batch without any label still has a shape to reduce
    ds = ds.padded_batch(batch, ([32, 32, 3], [CLASSES]), (0.0, tf.constant(-1, tf.int64)))
    return ds.map(lambda image, ids: (image, multi_hot(ids, CLASSES)))
