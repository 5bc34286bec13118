import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import tensorflow as tf

SIDE = 48
N = 3


def _load(x):
    x = tf.io.parse_single_example(x, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    # files could be png as well one day
    im = tf.io.decode_image(x["image"], channels=3)
    im = tf.image.resize(im, (SIDE, SIDE))
    return im, x["label"]


train = tf.data.TFRecordDataset("data/sizes/train.tfrecord").map(_load).shuffle(200).batch(20).prefetch(2)
val = tf.data.TFRecordDataset("data/sizes/val.tfrecord").map(_load).batch(20).prefetch(2)

model = keras.Sequential([
    keras.layers.Input((SIDE, SIDE, 3)),
    keras.layers.Rescaling(1 / 255.),
    keras.layers.Conv2D(16, 3, activation="relu"),
    keras.layers.MaxPooling2D(),
    keras.layers.Conv2D(32, 3, activation="relu"),
    keras.layers.MaxPooling2D(),
    keras.layers.Flatten(),
    keras.layers.Dense(N, activation="softmax"),
])
model.compile(keras.optimizers.Adam(), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=2)
