"""Stochastic weight averaging over the last epochs, written as a callback."""
import glob

import numpy as np
import tensorflow as tf


class WeightAverage(tf.keras.callbacks.Callback):
    def __init__(self, start_epoch):
        super().__init__()
        self.start_epoch, self.n, self.mean = start_epoch, 0, None

    def on_epoch_end(self, epoch, logs=None):
        if epoch < self.start_epoch:
            return
        weights = self.model.get_weights()
        self.n += 1
        if self.mean is None:
            self.mean = [w.copy() for w in weights]
        else:
            self.mean = [m + (w - m) / self.n for m, w in zip(self.mean, weights)]

    def on_train_end(self, logs=None):
        self.model.set_weights(self.mean)
        print(f"averaged the weights of {self.n} epochs")


feature_map = {"image_raw": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


def read(files):
    images, labels = [], []
    for r in tf.data.TFRecordDataset(files):
        p = tf.io.parse_single_example(r, feature_map)
        images.append(np.frombuffer(p["image_raw"].numpy(), np.uint8).reshape(28, 28, 1))
        labels.append(p["label"].numpy())
    return np.stack(images).astype(np.float32) / 255, np.array(labels)


x, y = read(sorted(glob.glob("data/digits/train-*")))
x_test, y_test = read(glob.glob("data/digits/test-*"))

# no batch normalization in this net, so the averaged weights need no new statistics
net = tf.keras.Sequential([
    tf.keras.layers.Input((28, 28, 1)),
    tf.keras.layers.Conv2D(16, 4, strides=2, activation="relu"),
    tf.keras.layers.Conv2D(32, 4, strides=2, activation="relu"),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(10, activation="softmax"),
])
net.compile(tf.keras.optimizers.SGD(0.05, momentum=0.9), "sparse_categorical_crossentropy", metrics=["accuracy"])
net.fit(x, y, batch_size=25, epochs=8, validation_split=0.2, callbacks=[WeightAverage(start_epoch=5)], verbose=2)
print("test", net.evaluate(x_test, y_test, verbose=0))
