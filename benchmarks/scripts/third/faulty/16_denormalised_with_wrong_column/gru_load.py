import numpy as np
import tensorflow as tf

FEATURES = ["temperature", "load", "wind"]
LOOKBACK = 36


def read(path):
    spec = {name: tf.io.FixedLenFeature([], tf.float32) for name in FEATURES}
    rows = [tf.io.parse_single_example(r, spec) for r in tf.data.TFRecordDataset(path)]
    return np.array([[float(row[name]) for name in FEATURES] for row in rows], np.float32)


train, val = read("data/power/train.tfrecord"), read("data/power/val.tfrecord")
mu, sigma = train.mean(axis=0), train.std(axis=0)
target = FEATURES.index("load")


def make(values, shuffle):
    scaled = (values - mu) / sigma
    return tf.keras.utils.timeseries_dataset_from_array(
        scaled[:-1], scaled[LOOKBACK:, target], sequence_length=LOOKBACK, batch_size=32, shuffle=shuffle)


train_ds, val_ds = make(train, True), make(val, False)

model = tf.keras.Sequential([
    tf.keras.layers.Input((LOOKBACK, len(FEATURES))),
    tf.keras.layers.GRU(16),
    tf.keras.layers.Dense(1),
])
model.compile("adam", "mse")
model.fit(train_ds, validation_data=val_ds, epochs=4, verbose=2)

forecast = model.predict(val_ds, verbose=0)[:, 0] * sigma[0] + mu[0]
actual = val[LOOKBACK:, target]
print("n =", len(forecast), len(actual))
print("MAPE %.1f%%" % (100 * np.mean(np.abs(forecast - actual) / actual)))
