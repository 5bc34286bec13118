import keras
import numpy as np
import tensorflow as tf
from keras import ops

QUANTILES = np.array([0.1, 0.5, 0.9], "float32")


def parse(record):
    row = tf.io.parse_single_example(record, {
        "x": tf.io.FixedLenFeature([8], tf.float32), "price": tf.io.FixedLenFeature([1], tf.float32)})
    return row["x"], row["price"]


train = tf.data.TFRecordDataset("data/houses/train.tfrecord").map(parse)
val = tf.data.TFRecordDataset("data/houses/val.tfrecord").map(parse)

prices = np.concatenate([p for _, p in train.as_numpy_iterator()])
mean, std = float(prices.mean()), float(prices.std())


def standardize(x, price):
    return x, (price - mean) / std


def pinball(y_true, y_pred):
    """y_true is [batch, 1]; y_pred has one column per quantile."""
    error = y_true - y_pred
    return ops.mean(ops.maximum(QUANTILES * error, (QUANTILES - 1.0) * error), axis=-1)


def coverage(y_true, y_pred):
    inside = ops.logical_and(y_true >= y_pred[:, :1], y_true <= y_pred[:, 2:])
    return ops.mean(ops.cast(inside, "float32"), axis=-1)


model = keras.Sequential([
    keras.Input((8,)),
    keras.layers.Dense(32, activation="swish"),
    keras.layers.Dense(len(QUANTILES)),
])
model.compile(optimizer=keras.optimizers.Adam(5e-3), loss=pinball, metrics=[coverage])
model.fit(
    train.map(standardize).cache().shuffle(500).batch(32),
    validation_data=val.map(standardize).batch(100),
    epochs=12,
    verbose=2,
)
