import tensorflow as tf

PAST = 24
COLUMNS = ["load", "temperature", "wind"]
SPEC = {name: tf.io.FixedLenFeature([], tf.float32) for name in COLUMNS}


def row(record):
    parsed = tf.io.parse_single_example(record, SPEC)
    return tf.stack([parsed[name] for name in COLUMNS])


train_rows = tf.data.TFRecordDataset("data/power/train.tfrecord").map(row)      # in the order of time
val_rows = tf.data.TFRecordDataset("data/power/val.tfrecord").map(row)

table = tf.stack(list(train_rows))
mean, std = tf.reduce_mean(table, axis=0), tf.math.reduce_std(table, axis=0)


def windows(rows):
    rows = rows.map(lambda r: (r - mean) / std)
    ds = rows.window(PAST + 1, shift=1, drop_remainder=True)
    ds = ds.flat_map(lambda w: w.batch(PAST + 1, drop_remainder=True))
    return ds.map(lambda w: (w[:-1], w[-1, 0]))       # next hour's load


train = windows(train_rows).cache().shuffle(800).batch(32).prefetch(1)
val = windows(val_rows).batch(64)

model = tf.keras.Sequential([
    tf.keras.Input((PAST, 3)),
    tf.keras.layers.GRU(16),
    tf.keras.layers.Dense(1),
])
model.compile(optimizer=tf.keras.optimizers.Adam(5e-3), loss="mse", metrics=["mae"])
model.fit(train, validation_data=val, epochs=5, verbose=2)
