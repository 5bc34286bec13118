import tensorflow as tf


def cells(split, batch):
    def parse(r):
        d = tf.io.parse_single_example(r, {"image": tf.io.FixedLenFeature([], tf.string),
                                           "mask": tf.io.FixedLenFeature([], tf.string)})
        x = tf.cast(tf.io.decode_png(d["image"], channels=3), tf.float32) / 255.0
        y = tf.io.decode_png(d["mask"], channels=1)
        return tf.ensure_shape(x, [48, 48, 3]), tf.ensure_shape(y, [48, 48, 1])

    ds = tf.data.TFRecordDataset(f"data/cells/{split}.tfrecord").map(parse).cache()
    if split == "train":
        ds = ds.shuffle(120)
    return ds.batch(batch)
