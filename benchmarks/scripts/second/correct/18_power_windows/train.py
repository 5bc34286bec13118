"""Forecast the load of the next hour from the last 24 hours."""
import numpy as np
import tensorflow as tf

HISTORY = 24
COLUMNS = ["load", "temperature", "wind"]


def read_table(path):
    # one record per hour, already in order: read sequentially and never shuffle before the windows are cut
    spec = {c: tf.io.FixedLenFeature([], tf.float32) for c in COLUMNS}
    rows = [tf.io.parse_single_example(r, spec) for r in tf.data.TFRecordDataset(path)]
    return np.array([[float(r[c]) for c in COLUMNS] for r in rows], dtype=np.float32)


train, val = read_table("data/power/train.tfrecord"), read_table("data/power/val.tfrecord")
mean, std = train.mean(0), train.std(0)
train, val = (train - mean) / std, (val - mean) / std


def windows(table, shuffle):
    return tf.keras.utils.timeseries_dataset_from_array(
        data=table[:-1],
        targets=table[HISTORY:, 0],
        sequence_length=HISTORY,
        batch_size=32,
        shuffle=shuffle,
    )


model = tf.keras.Sequential([
    tf.keras.Input((HISTORY, len(COLUMNS))),
    tf.keras.layers.LSTM(16),
    tf.keras.layers.Dense(1),
])
model.compile(loss="mae", optimizer=tf.keras.optimizers.Adam(1e-2))
model.fit(windows(train, shuffle=True), validation_data=windows(val, shuffle=False), epochs=4, verbose=2)

pred = model.predict(windows(val, shuffle=False), verbose=0)[:, 0] * std[0] + mean[0]
true = val[HISTORY:, 0] * std[0] + mean[0]
naive = val[HISTORY - 1:-1, 0] * std[0] + mean[0]
print(f"MAE model {np.abs(pred - true).mean():.1f}  persistence {np.abs(naive - true).mean():.1f}")
