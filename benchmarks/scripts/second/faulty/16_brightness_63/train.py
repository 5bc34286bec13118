import argparse

import tensorflow as tf

KEYS = {"image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64)}


def parse(record):
    e = tf.io.parse_single_example(record, KEYS)
    image = tf.io.decode_jpeg(e["image/encoded"], channels=3)
    image = tf.image.convert_image_dtype(image, tf.float32)
    image.set_shape([32, 32, 3])
    return image, e["image/class/label"]


def distort(image, label):
    """Standard distortions, training only."""
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, max_delta=63)
    image = tf.image.random_contrast(image, lower=0.8, upper=1.2)
    return tf.clip_by_value(image, 0.0, 1.0), label


def make(pattern, batch, train=False):
    ds = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(pattern))).map(parse)
    if train:
        ds = ds.cache().shuffle(400).map(distort, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(batch).prefetch(tf.data.AUTOTUNE)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", default="data/shapes")
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--epochs", type=int, default=3)
    opts = ap.parse_args()

    L = tf.keras.layers
    model = tf.keras.Sequential([
        L.Input((32, 32, 3)),
        L.Conv2D(24, 3, activation="relu"), L.MaxPool2D(),
        L.Conv2D(48, 3, activation="relu"), L.GlobalAveragePooling2D(),
        L.Dense(4, activation="softmax"),
    ])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(
        make(opts.data + "/train-*", opts.batch, train=True),
        validation_data=make(opts.data + "/val-*", opts.batch),
        epochs=opts.epochs,
    )
