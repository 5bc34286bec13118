import numpy as np
import tensorflow as tf

COLUMNS = ["load", "temperature", "wind"]


class WindowGenerator:
    """Sliding windows over an hourly series stored one record per hour."""

    def __init__(self, width, horizon, mean=None, std=None):
        self.width = width
        self.horizon = horizon
        self.mean, self.std = mean, std

    @property
    def total(self):
        return self.width + self.horizon

    def load(self, path):
        spec = {name: tf.io.FixedLenFeature([], tf.float32) for name in COLUMNS}
        rows = tf.data.TFRecordDataset(path).map(lambda r: tf.io.parse_single_example(r, spec))
        return rows.map(lambda row: tf.stack([row[c] for c in COLUMNS]))

    def fit_stats(self, path):
        values = np.stack(list(self.load(path).as_numpy_iterator()))
        self.mean, self.std = values.mean(0), values.std(0)

    def split(self, window):
        inputs = window
        target = window[-1, 0]
        return inputs, target

    def make(self, path, shuffle):
        series = self.load(path).map(lambda row: (row - self.mean) / self.std)
        windows = series.window(self.total, shift=1, drop_remainder=True)
        windows = windows.flat_map(lambda w: w.batch(self.total, drop_remainder=True))
        ds = windows.map(self.split)
        if shuffle:
            ds = ds.shuffle(1000)
        return ds.batch(32).prefetch(1)


wg = WindowGenerator(width=24, horizon=6)
wg.fit_stats("data/power/train.tfrecord")
train = wg.make("data/power/train.tfrecord", shuffle=True)
val = wg.make("data/power/val.tfrecord", shuffle=False)

model = tf.keras.Sequential([
    tf.keras.layers.GRU(16),
    tf.keras.layers.Dense(1),
])
model.compile(loss="mse", optimizer="adam", metrics=["mae"])
model.fit(train, validation_data=val, epochs=5, verbose=2)
