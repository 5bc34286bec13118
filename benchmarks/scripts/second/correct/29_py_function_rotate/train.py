import numpy as np
import tensorflow as tf
from scipy import ndimage

NUM_TRAIN, NUM_VAL = 400, 100
rng = np.random.default_rng(5)


def parse(s):
    f = tf.io.parse_single_example(s, {
        "image_raw": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    im = tf.reshape(tf.io.decode_raw(f["image_raw"], tf.uint8), (28, 28))
    return tf.cast(im, tf.float32) / 255., f["label"]


def _rotate(im):
    return ndimage.rotate(im.numpy(), rng.uniform(-10, 10), reshape=False, order=1).astype(np.float32)


def rotate(im, label):
    out = tf.py_function(_rotate, [im], tf.float32)
    out.set_shape((28, 28))        # py_function loses the static shape
    return out, label


def add_channel(im, label):
    return im[..., tf.newaxis], label


# a fixed order of the files makes skip/take the same split each time
everything = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob("data/digits/train-*"))).map(parse)
val = everything.take(NUM_VAL).map(add_channel).batch(50)
train = everything.skip(NUM_VAL).cache().shuffle(NUM_TRAIN).map(rotate).map(add_channel).batch(40).prefetch(2)
test = tf.data.TFRecordDataset(tf.io.gfile.glob("data/digits/test-*")).map(parse).map(add_channel).batch(50)

model = tf.keras.Sequential([
    tf.keras.layers.Input((28, 28, 1)),
    tf.keras.layers.Conv2D(16, 5, strides=2, activation="relu"),
    tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(10, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.optimizer.learning_rate = 4e-3
model.fit(train, validation_data=val, epochs=5, verbose=2)
print("test accuracy", model.evaluate(test, verbose=0)[1])
