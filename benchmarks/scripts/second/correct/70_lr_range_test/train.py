"""Learning-rate range test: the rate grows on purpose from tiny to huge; the weights are thrown away after it."""
import numpy as np
import tensorflow as tf
from tensorflow import keras


class RangeTest(keras.callbacks.Callback):
    def __init__(self, low, high, steps):
        super().__init__()
        self.rates = np.geomspace(low, high, steps)
        self.losses = []

    def on_train_batch_begin(self, batch, logs=None):
        self.model.optimizer.learning_rate.assign(self.rates[batch])

    def on_train_batch_end(self, batch, logs=None):
        # logs hold the running mean of the epoch: undo it
        mean = logs["loss"] * (batch + 1) - sum(self.losses)
        self.losses.append(mean)
        if batch > 10 and mean > 4 * min(self.losses):
            self.model.stop_training = True

    def suggestion(self):
        smooth = np.convolve(self.losses, np.ones(5) / 5, mode="valid")
        return float(self.rates[2 + np.argmin(np.gradient(smooth))])


def parse(r):
    f = tf.io.parse_single_example(r, {"image/encoded": tf.io.FixedLenFeature([], tf.string),
                                       "image/class/label": tf.io.FixedLenFeature([], tf.int64)})
    im = tf.io.decode_jpeg(f["image/encoded"], channels=3)
    return tf.ensure_shape(tf.cast(im, tf.float32) / 127.5 - 1.0, [32, 32, 3]), f["image/class/label"]


def build():
    keras.utils.set_random_seed(4)
    m = keras.Sequential([
        keras.Input((32, 32, 3)),
        keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(4, activation="softmax"),
    ])
    m.compile(keras.optimizers.SGD(1e-3, momentum=0.9), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return m


train = tf.data.TFRecordDataset(tf.io.gfile.glob("data/shapes/train-*")).map(parse).cache().shuffle(320).batch(32)
val = tf.data.TFRecordDataset(tf.io.gfile.glob("data/shapes/val-*")).map(parse).batch(40)

STEPS = 40
finder = RangeTest(1e-4, 1.0, STEPS)
build().fit(train.repeat(), steps_per_epoch=STEPS, epochs=1, callbacks=[finder], verbose=0)
rate = finder.suggestion()
print(f"steepest fall at {rate:.4f}")

model = build()
model.optimizer.learning_rate = min(rate, 0.02)
model.fit(train, validation_data=val, epochs=5, verbose=2)
