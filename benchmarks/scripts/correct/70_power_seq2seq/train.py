import keras
import numpy as np
import tensorflow as tf
from keras import layers

LENGTH = 48


def load(path):
    spec = {
        "hour": tf.io.FixedLenFeature([], tf.int64),
        "load": tf.io.FixedLenFeature([], tf.float32),
        "temperature": tf.io.FixedLenFeature([], tf.float32),
    }
    rows = [tf.io.parse_single_example(r, spec) for r in tf.data.TFRecordDataset(path)]
    angle = np.array([2 * np.pi * int(r["hour"]) / 24 for r in rows])
    values = np.array([[float(r["load"]), float(r["temperature"])] for r in rows])
    return np.concatenate([values, np.sin(angle)[:, None], np.cos(angle)[:, None]], axis=1).astype("float32")


train, val = load("data/power/train.tfrecord"), load("data/power/val.tfrecord")
mean, std = train[:, :2].mean(0), train[:, :2].std(0)
for part in (train, val):
    part[:, :2] = (part[:, :2] - mean) / std


def make_sequences(table, shuffle):
    starts = np.arange(len(table) - LENGTH)
    x = np.stack([table[s : s + LENGTH] for s in starts])
    y = np.stack([table[s + 1 : s + LENGTH + 1, :1] for s in starts])
    ds = tf.data.Dataset.from_tensor_slices((x, y))
    return (ds.shuffle(len(starts)) if shuffle else ds).batch(32)


inputs = keras.Input((LENGTH, 4))
x = layers.Conv1D(24, 3, padding="causal", activation="relu")(inputs)
x = layers.Conv1D(24, 3, padding="causal", dilation_rate=2, activation="relu")(x)
x = layers.Conv1D(24, 3, padding="causal", dilation_rate=4, activation="relu")(x)
outputs = layers.TimeDistributed(layers.Dense(1))(x)
model = keras.Model(inputs, outputs)
model.compile(optimizer="adam", loss=keras.losses.MeanSquaredError(), metrics=["mae"])
model.fit(make_sequences(train, True), validation_data=make_sequences(val, False), epochs=5, verbose=2)
