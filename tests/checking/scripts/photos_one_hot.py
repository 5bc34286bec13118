"""One-hot labels with the loss that takes them, and typed functions."""

from __future__ import annotations

import tensorflow as tf
import keras
from keras.layers import Conv2D, Dense, Flatten, Input, MaxPooling2D

NUM_CLASSES: int = 4
IMG: int = 32


def read_record(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Decode one record."""
    keys = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "image/height": tf.io.FixedLenFeature([], tf.int64),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }
    example = tf.io.parse_single_example(record, keys)
    image = tf.io.decode_image(example["image"], channels=3, expand_animations=False)
    image = tf.cast(image, tf.float32)
    image = image / 255.0
    image.set_shape([IMG, IMG, 3])
    label = tf.one_hot(example["label"], NUM_CLASSES)
    return image, label


def pipeline(pattern: str, *, shuffle: bool, batch: int = 32) -> tf.data.Dataset:
    files = sorted(tf.io.gfile.glob(pattern))
    if not files:
        raise FileNotFoundError(pattern)
    dataset = tf.data.TFRecordDataset(files, num_parallel_reads=2)
    if shuffle:
        dataset = dataset.shuffle(400)
    dataset = dataset.map(read_record, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.batch(batch)
    dataset = dataset.prefetch(tf.data.AUTOTUNE)
    return dataset


def main() -> None:
    train = pipeline("photos/train-*.tfrecord", shuffle=True)
    val = pipeline("photos/val-*.tfrecord", shuffle=False)
    model = keras.Sequential()
    model.add(Input((IMG, IMG, 3)))
    model.add(Conv2D(8, 3, activation="relu"))
    model.add(MaxPooling2D())
    model.add(Flatten())
    model.add(Dense(NUM_CLASSES, activation="softmax"))
    model.compile(optimizer="adam", loss="categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(train, validation_data=val, epochs=2)
    print(history.history)


if __name__ == "__main__":
    main()
