"""Load forecast with calendar features and a walk-forward view of the error."""
import argparse

import numpy as np
import tensorflow as tf

WINDOW = 36


def read(path):
    rows = []
    for rec in tf.data.TFRecordDataset(path).as_numpy_iterator():
        f = tf.train.Example.FromString(rec).features.feature
        hour = f["hour"].int64_list.value[0]
        rows.append([
            f["load"].float_list.value[0],
            f["temperature"].float_list.value[0],
            np.sin(2 * np.pi * hour / 24), np.cos(2 * np.pi * hour / 24),
            np.sin(2 * np.pi * hour / 168), np.cos(2 * np.pi * hour / 168),
        ])
    return np.array(rows, np.float32)


def cut(table):
    x = np.stack([table[i:i + WINDOW] for i in range(len(table) - WINDOW)])
    return x, table[WINDOW:, 0]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--data", default="/mnt/data/energy/hourly")
    p.add_argument("--epochs", type=int, default=4)
    args = p.parse_args()

    past, later = read(f"{args.data}/train.tfrecord"), read(f"{args.data}/val.tfrecord")
    centre, spread = past[:, :2].mean(0), past[:, :2].std(0)
    for t in (past, later):
        t[:, :2] = (t[:, :2] - centre) / spread

    x, y = cut(past)
    # the last fifth of the past decides when to stop, the later file is the test;
    # a gap of one window keeps the two parts from sharing hours
    n = int(0.8 * len(x))
    model = tf.keras.Sequential([tf.keras.Input((WINDOW, 6)), tf.keras.layers.GRU(16), tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.Adam(1e-2), "mse")
    model.fit(x[:n - WINDOW], y[:n - WINDOW], validation_data=(x[n:], y[n:]), epochs=args.epochs, batch_size=32,
              callbacks=[tf.keras.callbacks.EarlyStopping(patience=2, restore_best_weights=True)], verbose=2)

    xt, yt = cut(later)
    error = np.abs(model.predict(xt, verbose=0)[:, 0] - yt) * spread[0]
    naive = np.abs(xt[:, -1, 0] - yt) * spread[0]
    print(f"MAE {error.mean():.1f}, last value {naive.mean():.1f}")


if __name__ == "__main__":
    main()
