import numpy as np
import tensorflow as tf

PAST, FUTURE, STRIDE = 48, 12, 1
BATCH = 32
FEATURES = ("load", "temperature", "wind")


def series(path):
    def parse(r):
        d = tf.io.parse_single_example(r, {k: tf.io.FixedLenFeature([], tf.float32) for k in FEATURES})
        return tf.stack([d[k] for k in FEATURES])
    # a single file, sequential: the order of time is kept
    return tf.data.TFRecordDataset(path).map(parse)


stack = np.stack(list(series("data/power/train.tfrecord").as_numpy_iterator()))
MU, SIGMA = stack.mean(axis=0), stack.std(axis=0)


def windows(path, training):
    ds = series(path).map(lambda row: (row - MU) / SIGMA)
    ds = ds.window(PAST + FUTURE, shift=STRIDE, drop_remainder=True)
    ds = ds.flat_map(lambda w: w.batch(PAST + FUTURE, drop_remainder=True))
    ds = ds.map(lambda w: (w[:PAST], w[PAST:, 0])).cache()
    if training:
        ds = ds.shuffle(1000)            # whole windows are shuffled, not hours
    return ds.batch(BATCH).prefetch(1)


train, val = windows("data/power/train.tfrecord", True), windows("data/power/val.tfrecord", False)

inp = tf.keras.Input((PAST, 3))
x = tf.keras.layers.Conv1D(16, 4, padding="causal", activation="relu")(inp)
x = tf.keras.layers.Conv1D(16, 4, padding="causal", dilation_rate=4, activation="relu")(x)
x = tf.keras.layers.Flatten()(x)
out = tf.keras.layers.Dense(FUTURE)(x)
model = tf.keras.Model(inp, out)
model.compile(tf.keras.optimizers.Adam(2e-3), loss="mse", metrics=["mae"])
model.fit(train, validation_data=val, epochs=3, verbose=2)

errors = [abs(model(x, training=False) - y).numpy() for x, y in val]
print("MAE by hour ahead:", (np.concatenate(errors).mean(axis=0) * SIGMA[0]).round(1))
