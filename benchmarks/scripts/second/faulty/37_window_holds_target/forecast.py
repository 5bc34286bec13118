"""Forecast the next hourly load from the last 24 hours."""
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

WINDOW = 24
BATCH = 32
COLUMNS = ("load", "temperature", "wind")


def read(split):
    spec = {name: tf.io.FixedLenFeature([], tf.float32) for name in COLUMNS}
    rows = []
    for rec in tf.data.TFRecordDataset(f"data/power/{split}.tfrecord"):
        row = tf.io.parse_single_example(rec, spec)
        rows.append([float(row[c]) for c in COLUMNS])
    return np.array(rows, dtype=np.float32)


train_raw, val_raw = read("train"), read("val")
mean, std = train_raw.mean(axis=0), train_raw.std(axis=0)
train = (train_raw - mean) / std
val = (val_raw - mean) / std


def windows(series, shuffle):
    ds = tf.data.Dataset.from_tensor_slices(series)
    ds = ds.window(WINDOW + 1, shift=1, drop_remainder=True)
    ds = ds.flat_map(lambda w: w.batch(WINDOW + 1, drop_remainder=True))
    ds = ds.map(lambda w: (w[1:], w[-1, 0]))
    if shuffle:
        ds = ds.shuffle(1000)
    return ds.batch(BATCH).prefetch(tf.data.AUTOTUNE)


model = tf.keras.Sequential([
    layers.Input((WINDOW, len(COLUMNS))),
    layers.LSTM(16),
    layers.Dense(1),
])
model.compile(optimizer=tf.keras.optimizers.Adam(5e-3), loss="mse", metrics=["mae"])
model.fit(windows(train, True), validation_data=windows(val, False), epochs=3, verbose=2)
