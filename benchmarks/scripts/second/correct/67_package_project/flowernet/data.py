import os

import tensorflow as tf

LABEL_OFFSET = 1  # the records count classes from one
_FEATURES = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def _parse(serialized):
    sample = tf.io.parse_single_example(serialized, _FEATURES)
    image = tf.io.decode_jpeg(sample["image"], channels=3)
    image = tf.image.convert_image_dtype(image, tf.float32)
    return tf.ensure_shape(image, [64, 64, 3]), sample["label"] - LABEL_OFFSET


def _augment(image, label):
    image = tf.image.random_flip_left_right(image)
    return tf.clip_by_value(tf.image.random_contrast(image, 0.9, 1.1), 0.0, 1.0), label


def build_dataset(root, split, batch, training):
    files = tf.data.Dataset.list_files(os.path.join(root, f"{split}-*.tfrecord"), shuffle=training)
    ds = files.interleave(tf.data.TFRecordDataset, cycle_length=2).map(_parse, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.cache()
    if training:
        ds = ds.shuffle(250).map(_augment, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(batch).prefetch(tf.data.AUTOTUNE)
