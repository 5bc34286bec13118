import tensorflow as tf

SIZE = (64, 64)


def load_pair(rec):
    f = tf.io.parse_single_example(rec, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "mask": tf.io.FixedLenFeature([], tf.string),
    })
    image = tf.io.decode_png(f["image"], channels=3)
    mask = tf.io.decode_png(f["mask"], channels=1)
    image = tf.image.resize(image, SIZE) / 255.0
    mask = tf.image.resize(mask, SIZE)
    return image, tf.cast(mask, tf.int32)


def random_flip(image, mask):
    if tf.random.uniform([]) < 0.5:
        image = tf.image.flip_left_right(image)
        mask = tf.image.flip_left_right(mask)
    return image, mask


def segmentation_ds(split, batch):
    ds = tf.data.TFRecordDataset(f"data/cells/{split}.tfrecord")
    ds = ds.map(load_pair, num_parallel_calls=tf.data.AUTOTUNE).cache()
    if split == "train":
        ds = ds.shuffle(120).map(random_flip)
    return ds.batch(batch).prefetch(tf.data.AUTOTUNE)
