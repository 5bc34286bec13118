"""
Title: MixUp with Beta-distributed weights
Description: The pair of every sample is the same batch, reversed.
"""
import keras
import tensorflow as tf
from keras import layers

ALPHA = 0.3


def parse(record):
    row = tf.io.parse_single_example(
        record, {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    )
    image = tf.ensure_shape(tf.io.decode_jpeg(row["image"], channels=3), (32, 32, 3))
    return tf.cast(image, tf.float32) / 255.0, tf.one_hot(row["label"], 4)


"""
## The file is sorted by class, so the buffer holds all of it
"""


def beta(n):
    a = tf.random.gamma([n], ALPHA)
    b = tf.random.gamma([n], ALPHA)
    return a / (a + b)


def mix(images, labels):
    lam = beta(tf.shape(images)[0])
    images = lam[:, None, None, None] * images + (1.0 - lam)[:, None, None, None] * images[::-1]
    labels = lam[:, None] * labels + (1.0 - lam)[:, None] * labels[::-1]
    return images, labels


train_ds = tf.data.TFRecordDataset("data/shapes_sorted/train.tfrecord").map(parse).cache().shuffle(320).batch(32).map(mix)
val_ds = tf.data.TFRecordDataset("data/shapes_sorted/val.tfrecord").map(parse).batch(80)

model = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        layers.Conv2D(16, 5, strides=2, activation="relu"),
        layers.Conv2D(32, 3, strides=2, activation="relu"),
        layers.GlobalMaxPooling2D(),
        layers.Dense(4, activation="softmax"),
    ]
)
model.compile(keras.optimizers.Adam(3e-3), "categorical_crossentropy", metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=6, verbose=2)
