import tensorflow as tf

POSITIVE_WEIGHT = 9.0


def _parse(record):
    ex = tf.io.parse_single_example(
        record,
        {"image": tf.io.FixedLenFeature([], tf.string), "target": tf.io.FixedLenFeature([], tf.int64)},
    )
    image = tf.io.decode_png(ex["image"], channels=3)
    image = tf.cast(tf.ensure_shape(image, (32, 32, 3)), tf.float32) / 255.0
    target = tf.cast(ex["target"], tf.float32)[None]
    weight = tf.where(target[0] > 0.5, POSITIVE_WEIGHT, 1.0)
    return image, target, weight


def load(path, batch_size, training=False):
    ds = tf.data.TFRecordDataset(path).map(_parse, num_parallel_calls=2).cache()
    if training:
        ds = ds.shuffle(300, seed=5)
    return ds.batch(batch_size).prefetch(1)
