import glob
import numpy as np
import tensorflow as tf
import keras
from keras import layers

BATCH = 32


def parse(rec):
    e = tf.io.parse_single_example(rec, {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    })
    img = tf.io.decode_jpeg(e["image/encoded"], channels=3)
    img = tf.image.convert_image_dtype(img, tf.float32)
    return tf.ensure_shape(img, (32, 32, 3)), e["image/class/label"]


def augment(img, label):
    delta = np.random.uniform(-0.15, 0.15)
    img = tf.image.adjust_brightness(img, delta)
    if np.random.rand() < 0.5:
        img = tf.image.flip_left_right(img)
    return tf.clip_by_value(img, 0.0, 1.0), label


train_ds = (tf.data.TFRecordDataset(glob.glob("data/shapes/train-*.tfrecord"))
            .map(parse, num_parallel_calls=tf.data.AUTOTUNE)
            .cache()
            .shuffle(320)
            .map(augment, num_parallel_calls=tf.data.AUTOTUNE)
            .batch(BATCH)
            .prefetch(tf.data.AUTOTUNE))
val_ds = (tf.data.TFRecordDataset(glob.glob("data/shapes/val-*.tfrecord"))
          .map(parse, num_parallel_calls=tf.data.AUTOTUNE)
          .batch(BATCH)
          .prefetch(tf.data.AUTOTUNE))

model = keras.Sequential([
    keras.Input((32, 32, 3)),
    layers.Conv2D(16, 3, activation="relu", padding="same"),
    layers.MaxPooling2D(),
    layers.Conv2D(32, 3, activation="relu", padding="same"),
    layers.MaxPooling2D(),
    layers.Flatten(),
    layers.Dense(4, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=3)
