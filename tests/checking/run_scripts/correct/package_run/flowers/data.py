import pathlib

import tensorflow as tf

ROOT = pathlib.Path("/mnt/data/digits")


def _parse(record):
    row = tf.io.parse_single_example(
        record, {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    )
    image = tf.io.decode_image(row["image"], channels=3, expand_animations=False)
    image.set_shape([32, 32, 3])
    return tf.image.convert_image_dtype(image, tf.float32), row["label"]


def build(split, batch):
    files = [str(path) for path in sorted(ROOT.glob(f"{split}*.tfrecord"))]
    ds = tf.data.TFRecordDataset(files).map(_parse, num_parallel_calls=4)
    if split == "train":
        ds = ds.shuffle(600)
    return ds.batch(batch).prefetch(2)
