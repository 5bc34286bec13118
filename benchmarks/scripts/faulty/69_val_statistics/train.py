import numpy as np
import tensorflow as tf

SPEC = {"x": tf.io.FixedLenFeature([8], tf.float32), "price": tf.io.FixedLenFeature([], tf.float32)}


def load(path, batch_size=32, shuffle=False):
    ds = tf.data.TFRecordDataset(path).map(lambda s: tf.io.parse_single_example(s, SPEC))
    ds = ds.map(lambda d: (d["x"], d["price"]))

    # standardize
    xs, ys = zip(*ds.as_numpy_iterator())
    x_mean, x_std = np.mean(xs, axis=0), np.std(xs, axis=0)
    y_mean, y_std = np.mean(ys), np.std(ys)
    ds = ds.map(lambda x, y: ((x - x_mean) / x_std, (y - y_mean) / y_std))

    if shuffle:
        ds = ds.shuffle(500)
    return ds.batch(batch_size)


train_ds = load("data/houses/train.tfrecord", shuffle=True)
val_ds = load("data/houses/val.tfrecord")

model = tf.keras.Sequential([
    tf.keras.Input((8,)),
    tf.keras.layers.Dense(32, activation="relu"),
    tf.keras.layers.Dense(1),
])
model.compile("adam", "mse", metrics=["mae"])
model.fit(train_ds, validation_data=val_ds, epochs=10, verbose=2)
