"""
Title: Anomaly detection with an autoencoder
Description: The target of an autoencoder is its own input; labels are used for the evaluation only.
"""
import keras
import numpy as np
import tensorflow as tf
from keras import layers


def parse(record):
    row = tf.io.parse_single_example(
        record, {"features": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    )
    return tf.ensure_shape(tf.io.decode_raw(row["features"], tf.float32), [16]), row["label"]


"""
## Normal data: classes 0 and 1. Class 2 is never shown in training.
"""
train = tf.data.TFRecordDataset("data/vectors/train.tfrecord").map(parse)
normal = train.filter(lambda x, y: y < 2).map(lambda x, y: x)
norm = layers.Normalization()
norm.adapt(normal.batch(64))
fit_ds = normal.shuffle(400).batch(32).map(lambda x: (norm(x), norm(x)))

"""
## Model
"""
autoencoder = keras.Sequential(
    [keras.Input((16,)), layers.Dense(8, activation="tanh"), layers.Dense(2), layers.Dense(8, activation="tanh"), layers.Dense(16)]
)
autoencoder.compile(keras.optimizers.Adam(1e-2), "mse")
autoencoder.fit(fit_ds, epochs=15, verbose=2)

"""
## Evaluation
"""
val = tf.data.TFRecordDataset("data/vectors/val.tfrecord").map(parse).batch(100)
for x, y in val:
    z = norm(x)
    error = np.mean((z - autoencoder(z)) ** 2, axis=1)
    auc = keras.metrics.AUC()
    auc.update_state(y == 2, error / error.max())
    print("mean error per class", [float(error[y == k].mean().round(2)) for k in range(3)], "AUC", float(auc.result()))
