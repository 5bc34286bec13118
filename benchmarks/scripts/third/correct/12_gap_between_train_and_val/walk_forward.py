"""Walk-forward validation: train on the past, leave a gap as long as a window, test on the next block."""
import numpy as np
import tensorflow as tf

WINDOW, HORIZON, BLOCK = 24, 3, 150
NAMES = ("load", "temperature", "wind")


def read(path):
    spec = {n: tf.io.FixedLenFeature([], tf.float32) for n in NAMES}
    return np.array([[float(v[n]) for n in NAMES] for v in
                     (tf.io.parse_single_example(r, spec) for r in tf.data.TFRecordDataset(path))], np.float32)


series = np.concatenate([read("data/power/train.tfrecord"), read("data/power/val.tfrecord")])


def cut(values):
    n = len(values) - WINDOW - HORIZON + 1
    x = np.stack([values[i:i + WINDOW] for i in range(n)])
    y = np.stack([values[i + WINDOW:i + WINDOW + HORIZON, 0] for i in range(n)])
    return x, y


def build():
    model = tf.keras.Sequential([
        tf.keras.Input((WINDOW, len(NAMES))),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(32, activation="relu"),
        tf.keras.layers.Dense(HORIZON),
    ])
    model.compile(tf.keras.optimizers.Adam(3e-3), "mse")
    return model


errors = []
for end in (500, 650, 800):
    past, future = series[:end], series[end + WINDOW:end + WINDOW + BLOCK]
    mean, std = past.mean(0), past.std(0)
    x, y = cut((past - mean) / std)
    xt, yt = cut((future - mean) / std)
    model = build()
    model.fit(x, y, epochs=8, batch_size=32, shuffle=True, verbose=0)
    err = np.abs(model.predict(xt, verbose=0) - yt).mean() * std[0]
    errors.append(err)
    print(f"trained on {end} hours, MAE of the next block {err:.1f} MW")
print("mean", np.mean(errors))
