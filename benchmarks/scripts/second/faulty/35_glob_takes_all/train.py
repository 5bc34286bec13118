"""python train.py --data data/shapes --epochs 3"""
import argparse
import glob
import os

import keras
import tensorflow as tf


def get_files(data_dir, prefix=""):
    files = sorted(glob.glob(os.path.join(data_dir, prefix + "*.tfrecord")))
    if not files:
        raise FileNotFoundError(data_dir)
    print(len(files), "files")
    return files


def parse(serialized):
    ex = tf.io.parse_single_example(serialized, {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.io.decode_jpeg(ex["image/encoded"], channels=3)
    image = tf.reshape(image, [32, 32, 3])
    return tf.cast(image, tf.float32) / 255.0, ex["image/class/label"]


def main(args):
    train_ds = tf.data.TFRecordDataset(get_files(args.data), num_parallel_reads=4)
    train_ds = train_ds.shuffle(500).map(parse, num_parallel_calls=4).batch(args.batch_size).prefetch(2)
    val_ds = tf.data.TFRecordDataset(get_files(args.data, "val-"))
    val_ds = val_ds.map(parse, num_parallel_calls=4).batch(args.batch_size)
    test_ds = tf.data.TFRecordDataset(get_files(args.data, "test-")).map(parse).batch(args.batch_size)

    model = keras.Sequential([
        keras.Input((32, 32, 3)),
        keras.layers.Conv2D(16, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dropout(0.3),
        keras.layers.Dense(4),
    ])
    model.compile(
        optimizer=keras.optimizers.Adam(args.lr),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(train_ds, validation_data=val_ds, epochs=args.epochs, verbose=2)
    print("test accuracy", model.evaluate(test_ds, verbose=0)[1])


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--data", default="data/shapes")
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--epochs", type=int, default=3)
    main(p.parse_args())
