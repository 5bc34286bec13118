"""One-step-ahead load forecast with an LSTM."""
import tensorflow as tf

WINDOW = 24
COLUMNS = ("load", "temperature", "wind")
MEAN = tf.constant([680.0, 15.0, 5.0])
STD = tf.constant([170.0, 7.0, 2.0])


def parse(record):
    row = tf.io.parse_single_example(record, {c: tf.io.FixedLenFeature([], tf.float32) for c in COLUMNS})
    values = tf.stack([row[c] for c in COLUMNS])
    return (values - MEAN) / STD


def windows(path, training):
    series = tf.data.TFRecordDataset(path).map(parse)
    if training:
        series = series.shuffle(800)
    ds = series.window(WINDOW + 1, shift=1, drop_remainder=True)
    ds = ds.flat_map(lambda w: w.batch(WINDOW + 1, drop_remainder=True))
    ds = ds.map(lambda w: (w[:-1], w[-1, :1]))
    return ds.batch(32).prefetch(1)


train_ds = windows("data/power/train.tfrecord", True)
val_ds = windows("data/power/val.tfrecord", False)

model = tf.keras.Sequential(
    [
        tf.keras.layers.Input((WINDOW, len(COLUMNS))),
        tf.keras.layers.LSTM(16),
        tf.keras.layers.Dense(1),
    ]
)
model.compile(optimizer=tf.keras.optimizers.Adam(1e-2), loss="mse", metrics=["mae"])
model.fit(train_ds, validation_data=val_ds, epochs=4, verbose=2)

loss, mae = model.evaluate(val_ds, verbose=0)
print(f"mean error: {mae * float(STD[0]):.1f} MW")
