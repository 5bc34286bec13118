"""1-D CNN on raw audio. Usage: python wave_cnn.py --width 16"""
import argparse

import keras
import tensorflow as tf


def get(split, bs, shuffle=False):
    spec = {"audio": tf.io.FixedLenFeature([400], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)}

    def f(r):
        e = tf.io.parse_single_example(r, spec)
        return e["audio"][:, None], tf.one_hot(e["label"], 4)

    d = tf.data.TFRecordDataset(f"data/audio/{split}.tfrecord").map(f).cache()
    d = d.shuffle(300) if shuffle else d
    return d.batch(bs)


def net(w):
    return keras.Sequential([
        keras.Input((400, 1)),
        keras.layers.Conv1D(w, 32, strides=4, activation="relu"),
        keras.layers.MaxPooling1D(4),
        keras.layers.Conv1D(2 * w, 8, activation="relu"),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(4, activation="softmax"),
    ])


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--width", type=int, default=16)
    p.add_argument("--epochs", type=int, default=6)
    o = p.parse_args()
    m = net(o.width)
    m.compile(
        optimizer=keras.optimizers.Adam(3e-3),
        loss=keras.losses.CategoricalCrossentropy(),
        metrics=[keras.metrics.Accuracy(name="acc")],
    )
    m.fit(get("train", 30, True), validation_data=get("val", 80), epochs=o.epochs, verbose=2)
