import itertools

import numpy as np
import tensorflow as tf


def read(path):
    ds = tf.data.TFRecordDataset(path).map(lambda r: tf.io.parse_single_example(r, {
        "features": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}))
    pairs = [(np.frombuffer(d["features"], "<f4"), d["label"]) for d in ds.as_numpy_iterator()]
    return np.stack([p[0] for p in pairs]), np.array([p[1] for p in pairs])


x, y = read("data/vectors/train.tfrecord")
x_test, y_test = read("data/vectors/val.tfrecord")     # stays untouched until the end
x_fit, y_fit, x_val, y_val = x[:320], y[:320], x[320:], y[320:]


def build(units, lr):
    m = tf.keras.Sequential([
        tf.keras.Input((16,)), tf.keras.layers.Dense(units, activation="relu"),
        tf.keras.layers.Dense(3, activation="softmax")])
    m.compile(tf.keras.optimizers.SGD(lr), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return m


results = {}
for units, lr in itertools.product([4, 16], [1e-2, 1e-1]):
    tf.keras.utils.set_random_seed(1)
    model = build(units, lr)
    history = model.fit(x_fit, y_fit, batch_size=32, epochs=3, validation_data=(x_val, y_val), verbose=0)
    results[units, lr] = history.history["val_loss"][-1]
    print(f"units {units:2d} lr {lr:.2f}: val loss {results[units, lr]:.4f}")

units, lr = min(results, key=results.get)
print("best:", units, lr)
final = build(units, lr)
final.fit(x, y, batch_size=32, epochs=3, verbose=0)      # all training data with the settings found
print("held out: loss %.4f accuracy %.3f" % tuple(final.evaluate(x_test, y_test, verbose=0)))
