import tensorflow as tf


def load(split: str, batch: int) -> tf.data.Dataset:
    def parse(record):
        row = tf.io.parse_single_example(
            record, {"image": tf.io.FixedLenFeature([], tf.string), "mask": tf.io.FixedLenFeature([], tf.string)}
        )
        image = tf.ensure_shape(tf.io.decode_png(row["image"], channels=3), (48, 48, 3))
        mask = tf.ensure_shape(tf.io.decode_png(row["mask"], channels=1), (48, 48, 1))
        return tf.cast(image, tf.float32) / 255.0, tf.cast(mask[..., 0], tf.int32)

    ds = tf.data.TFRecordDataset(f"data/cells/{split}.tfrecord").map(parse).cache()
    return (ds.shuffle(120) if split == "train" else ds).batch(batch)
