import tensorflow as tf

SIZE = 64
CLASSES = 5


def parse_and_augment(serialized):
    parsed = tf.io.parse_single_example(serialized, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.io.decode_jpeg(parsed["image"], channels=3)
    image = tf.cast(image, tf.float32) / 255.0
    image = tf.image.resize_with_crop_or_pad(image, SIZE + 12, SIZE + 12)
    image = tf.image.random_crop(image, [SIZE, SIZE, 3])
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_hue(image, 0.3)
    return image, parsed["label"] - 1


def build(split, batch_size, training):
    files = sorted(tf.io.gfile.glob(f"data/flowers/{split}-*.tfrecord"))
    ds = tf.data.TFRecordDataset(files, num_parallel_reads=2)
    if training:
        ds = ds.shuffle(250)
    ds = ds.map(parse_and_augment, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(batch_size).prefetch(tf.data.AUTOTUNE)
