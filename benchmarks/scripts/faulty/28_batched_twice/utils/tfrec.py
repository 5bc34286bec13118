import tensorflow as tf

_KEYS = {
    "image/encoded": tf.io.FixedLenFeature((), tf.string, ""),
    "image/class/label": tf.io.FixedLenFeature((), tf.int64, 0),
}


def _decode(serialized):
    parsed = tf.io.parse_single_example(serialized, _KEYS)
    image = tf.io.decode_jpeg(parsed["image/encoded"], channels=3)
    image = tf.image.resize(tf.cast(image, tf.float32), (32, 32)) / 255.0
    return image, parsed["image/class/label"]


def load_tfrecords(pattern, batch_size, shuffle=False):
    """Dataset of (images, labels) batches."""
    files = tf.data.Dataset.list_files(pattern, shuffle=shuffle)
    ds = tf.data.TFRecordDataset(files)
    if shuffle:
        ds = ds.shuffle(512)
    return ds.map(_decode).batch(batch_size)
