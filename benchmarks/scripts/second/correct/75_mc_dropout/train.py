import numpy as np
import tensorflow as tf
from tensorflow import keras


class MCDropout(keras.layers.Dropout):
    """Dropout that is always on: each forward pass is a sample."""

    def call(self, inputs, training=None):
        return super().call(inputs, training=True)


def as_arrays(path):
    x, y = [], []
    for rec in tf.data.TFRecordDataset(path):
        e = tf.io.parse_single_example(rec, {"x": tf.io.FixedLenFeature([8], tf.float32),
                                             "price": tf.io.FixedLenFeature([], tf.float32)})
        x.append(e["x"])
        y.append(e["price"])
    return np.array(x), np.array(y) / 1e5         # in 100,000 dollars


x, y = as_arrays("data/houses/train.tfrecord")
x_val, y_val = as_arrays("data/houses/val.tfrecord")
centre = y.mean()

model = keras.Sequential([
    keras.Input((8,)),
    keras.layers.Dense(64, activation="relu"),
    MCDropout(0.1),
    keras.layers.Dense(64, activation="relu"),
    MCDropout(0.1),
    keras.layers.Dense(1),
])
model.compile(keras.optimizers.Adam(3e-3), loss="mse")
model.fit(x, y - centre, batch_size=25, epochs=6, verbose=2)

samples = np.stack([model.predict(x_val, verbose=0)[:, 0] for _ in range(20)]) + centre
mean, std = samples.mean(axis=0), samples.std(axis=0)
print("RMSE of the mean prediction: %.3f, spread of prices %.3f" % (np.sqrt(np.mean((mean - y_val) ** 2)), y_val.std()))
print("mean predictive std: %.3f" % std.mean())
