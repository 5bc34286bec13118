#!/usr/bin/env python
import argparse
import os

import tensorflow as tf


def get_args():
    p = argparse.ArgumentParser(description="House price regression")
    p.add_argument("--data-dir", type=str, default="data/houses")
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--batch-size", type=int, default=50)
    p.add_argument("--lr", type=float, default=0.01)
    return p.parse_args()


def parse_fn(serialized):
    example = tf.io.parse_single_example(
        serialized,
        features={
            "x": tf.io.FixedLenFeature([8], tf.float32),
            "price": tf.io.FixedLenFeature([1], tf.float32),
        },
    )
    return example["x"], example["price"] / 100000.0


def dataset(path, batch_size, train):
    ds = tf.data.TFRecordDataset(path).map(parse_fn)
    if train:
        ds = ds.shuffle(1024)
    return ds.batch(batch_size).prefetch(tf.data.AUTOTUNE)


def regression_model(lr):
    model = tf.keras.Sequential()
    model.add(tf.keras.Input(shape=(8,)))
    model.add(tf.keras.layers.Dense(64, activation="relu"))
    model.add(tf.keras.layers.Dense(32, activation="relu"))
    model.add(tf.keras.layers.Dense(1, activation="sigmoid"))
    model.compile(optimizer=tf.keras.optimizers.Adam(lr), loss="mse", metrics=["mae"])
    return model


def main():
    args = get_args()
    train = dataset(os.path.join(args.data_dir, "train.tfrecord"), args.batch_size, True)
    val = dataset(os.path.join(args.data_dir, "val.tfrecord"), args.batch_size, False)
    model = regression_model(args.lr)
    model.fit(train, validation_data=val, epochs=args.epochs, verbose=2)


if __name__ == "__main__":
    main()
