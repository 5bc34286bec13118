"""
Title: Hourly load forecast with residual convolutions
"""
import keras
import numpy as np
import tensorflow as tf
from keras import layers

HISTORY = 24
FEATURES = ["load", "temperature", "wind"]


class ResidualConv(layers.Layer):
    def __init__(self, filters, dilation):
        self.conv = layers.Conv1D(filters, 3, padding="causal", dilation_rate=dilation, activation="relu")
        self.project = layers.Conv1D(filters, 1)

    def call(self, x):
        return self.project(x) + self.conv(x)


def load_series(path):
    spec = {name: tf.io.FixedLenFeature([], tf.float32) for name in FEATURES}
    ds = tf.data.TFRecordDataset(path).map(lambda r: tf.io.parse_single_example(r, spec))
    return np.array([[float(row[n]) for n in FEATURES] for row in ds], "float32")


train_series = load_series("data/power/train.tfrecord")
val_series = load_series("data/power/val.tfrecord")
mean, std = train_series.mean(0), train_series.std(0)


def windows(series, shuffle):
    series = (series - mean) / std
    return keras.utils.timeseries_dataset_from_array(
        series[:-1], targets=series[HISTORY:, 0], sequence_length=HISTORY, batch_size=32, shuffle=shuffle)


inputs = keras.Input((HISTORY, len(FEATURES)))
x = inputs
for d in (1, 2, 4):
    x = ResidualConv(16, d)(x)
outputs = layers.Dense(1)(layers.Flatten()(x))
model = keras.Model(inputs, outputs)

model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse", metrics=["mae"])
model.fit(windows(train_series, True), validation_data=windows(val_series, False), epochs=3, verbose=2)
