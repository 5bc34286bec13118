import itertools

import numpy as np
import tensorflow as tf


def load(path):
    spec = {'x': tf.io.FixedLenFeature([8], tf.float32), 'price': tf.io.FixedLenFeature([], tf.float32)}
    rows = tf.data.TFRecordDataset(path).map(lambda r: tf.io.parse_single_example(r, spec))
    rows = list(rows.as_numpy_iterator())
    return np.stack([r['x'] for r in rows]), np.array([r['price'] for r in rows])


x, y = load('data/houses/train.tfrecord')
x_test, y_test = load('data/houses/val.tfrecord')       # not looked at until the end

# the rows are independent and already in random order
x_fit, y_fit, x_dev, y_dev = x[:400], y[:400], x[400:], y[400:]
centre, spread = y_fit.mean(), y_fit.std()


def scale(prices):
    return (prices - centre) / spread


def make(units, rate):
    tf.keras.utils.set_random_seed(0)
    model = tf.keras.Sequential([
        tf.keras.Input((8,)), tf.keras.layers.Dense(units, activation='relu'), tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.Adam(rate), 'mse')
    return model


results = {}
for units, rate in itertools.product([8, 32], [3e-3, 3e-2]):
    model = make(units, rate)
    history = model.fit(x_fit, scale(y_fit), validation_data=(x_dev, scale(y_dev)), epochs=8, batch_size=32, verbose=0)
    results[units, rate] = history.history['val_loss'][-1], model
    print(f'units {units} rate {rate}: dev loss {history.history["val_loss"][-1]:.4f}')

best = min(results, key=lambda k: results[k][0])
predicted = results[best][1].predict(x_test, verbose=0)[:, 0] * spread + centre
print('best', best, 'test mean absolute error', np.abs(predicted - y_test).mean())
