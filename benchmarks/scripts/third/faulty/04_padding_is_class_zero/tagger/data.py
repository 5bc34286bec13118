import tensorflow as tf

from .config import Config

SPEC = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "labels": tf.io.VarLenFeature(tf.int64),
}


def _decode(raw: tf.Tensor) -> tf.Tensor:
    image = tf.io.decode_jpeg(raw, channels=3)
    image.set_shape((32, 32, 3))
    return tf.cast(image, tf.float32) / 127.5 - 1.0


def load(path: str, cfg: Config, shuffle: bool) -> tf.data.Dataset:
    ds = tf.data.TFRecordDataset(path)
    if shuffle:
        ds = ds.shuffle(1000)
    ds = ds.batch(cfg.batch)

    def parse(batch):
        ex = tf.io.parse_example(batch, SPEC)
        images = tf.map_fn(_decode, ex["image"], fn_output_signature=tf.TensorSpec((32, 32, 3), tf.float32))
        ids = tf.sparse.to_dense(ex["labels"])
        target = tf.reduce_max(tf.one_hot(ids, cfg.classes), axis=1)
        return images, target

    return ds.map(parse).prefetch(tf.data.AUTOTUNE)
