import tensorflow as tf

_KEYS = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
}


def _parse(rec):
    p = tf.io.parse_single_example(rec, _KEYS)
    img = tf.io.decode_jpeg(p["image/encoded"], channels=3)
    img = tf.ensure_shape(img, [32, 32, 3])
    return tf.cast(img, tf.float32) / 255.0, p["image/class/label"]


def get(split, batch=32):
    files = tf.data.Dataset.list_files(f"data/shapes/{split}-*.tfrecord", shuffle=split == "train")
    ds = files.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.map(_parse, num_parallel_calls=tf.data.AUTOTUNE).cache()
    if split == "train":
        ds = ds.shuffle(400)
    return ds.batch(batch).prefetch(tf.data.AUTOTUNE)
