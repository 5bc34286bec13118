"""Decoded images are cached; what is random comes behind the cache."""

import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

augmentation = keras.Sequential(
    [
        layers.RandomFlip("horizontal"),
        layers.RandomRotation(0.1),
    ]
)


def decode(record):
    parsed = tf.io.parse_single_example(
        record,
        {
            "image": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64),
        },
    )
    image = tf.image.decode_jpeg(parsed["image"], channels=3)
    return tf.ensure_shape(image, (32, 32, 3)), parsed["label"]


def open_split(split):
    return tf.data.TFRecordDataset(tf.io.gfile.glob(f"photos/{split}-*.tfrecord"))


train = (
    open_split("train")
    .map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(400)
    .batch(32)
    .map(lambda image, label: (augmentation(image, training=True), label), num_parallel_calls=tf.data.AUTOTUNE)
    .prefetch(tf.data.AUTOTUNE)
)
val = open_split("val").map(decode, num_parallel_calls=tf.data.AUTOTUNE).batch(32).cache().prefetch(tf.data.AUTOTUNE)

model = keras.Sequential(
    [
        layers.Input((32, 32, 3)),
        layers.Rescaling(1.0 / 255),
        layers.Conv2D(8, 3, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(4, activation="softmax"),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(learning_rate=1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(),
    metrics=["accuracy"],
)
model.fit(train, validation_data=val, epochs=2)
