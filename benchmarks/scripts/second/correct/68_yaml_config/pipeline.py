"""The last records of the training files are the validation part; the test file is never used to choose anything."""
import tensorflow as tf

SPEC = {"image_raw": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


def _parse(record):
    f = tf.io.parse_single_example(record, SPEC)
    pixels = tf.reshape(tf.io.decode_raw(f["image_raw"], tf.uint8), (28, 28, 1))
    return tf.cast(pixels, tf.float32) / 255.0, f["label"]


def load_split(cfg, split, batch_size):
    name = "test" if split == "test" else "train"
    files = sorted(tf.io.gfile.glob(f"{cfg['folder']}/{name}-*.tfrecord"))
    ds = tf.data.TFRecordDataset(files)
    if split == "fit":
        ds = ds.take(cfg["fit_records"])
    elif split == "val":
        ds = ds.skip(cfg["fit_records"]).take(cfg["val_records"])
    ds = ds.map(_parse, num_parallel_calls=tf.data.AUTOTUNE).cache()
    if split == "fit":
        ds = ds.shuffle(cfg["fit_records"])
    return ds.batch(batch_size).prefetch(tf.data.AUTOTUNE)
