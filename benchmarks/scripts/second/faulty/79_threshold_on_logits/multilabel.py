import argparse

import keras
import tensorflow as tf
from keras import layers

NUM_LABELS = 6


def parse(rec):
    e = tf.io.parse_single_example(rec, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "labels": tf.io.VarLenFeature(tf.int64),
    })
    image = tf.io.decode_jpeg(e["image"], channels=3)
    image = tf.reshape(tf.cast(image, tf.float32) / 255.0, [32, 32, 3])
    ids = tf.sparse.to_dense(e["labels"])
    multi_hot = tf.reduce_sum(tf.one_hot(ids, NUM_LABELS), axis=0)
    return image, multi_hot


def dataset(path, batch_size, train):
    ds = tf.data.TFRecordDataset(path).map(parse, num_parallel_calls=tf.data.AUTOTUNE).cache()
    if train:
        ds = ds.shuffle(300)
    return ds.batch(batch_size).prefetch(tf.data.AUTOTUNE)


def build():
    return keras.Sequential([
        keras.Input((32, 32, 3)),
        layers.Conv2D(16, 3, activation="relu", padding="same"),
        layers.MaxPooling2D(),
        layers.Conv2D(32, 3, activation="relu", padding="same"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dense(64, activation="relu"),
        layers.Dense(NUM_LABELS),
    ])


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--data-dir", default="data/scenes")
    ap.add_argument("--batch-size", type=int, default=30)
    ap.add_argument("--epochs", type=int, default=3)
    args = ap.parse_args()

    model = build()
    model.compile(
        optimizer="adam",
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.BinaryAccuracy(), keras.metrics.Precision(thresholds=0.5), keras.metrics.Recall(thresholds=0.5)],
    )
    model.fit(
        dataset(f"{args.data_dir}/train.tfrecord", args.batch_size, True),
        validation_data=dataset(f"{args.data_dir}/val.tfrecord", args.batch_size, False),
        epochs=args.epochs,
        verbose=2,
    )
