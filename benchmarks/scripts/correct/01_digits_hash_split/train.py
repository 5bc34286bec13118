"""Writes the scikit-learn digits to TFRecord shards and trains a small CNN on them.

The split depends only on a hash of the sample id, so it does not change when samples are added.
"""
import contextlib
import hashlib
import os

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

OUT = "digits_tfrecords"
NUM_SHARDS = {"train": 4, "val": 2}
BATCH = 64


def split_of(sample_id: str) -> str:
    bucket = int(hashlib.md5(sample_id.encode()).hexdigest(), 16) % 10
    return "val" if bucket < 2 else "train"


def to_example(sample_id, pixels, label):
    png = tf.io.encode_png(pixels[..., np.newaxis]).numpy()
    feature = {
        "id": tf.train.Feature(bytes_list=tf.train.BytesList(value=[sample_id.encode()])),
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[png])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(label)])),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature))


def write_all():
    os.makedirs(OUT, exist_ok=True)
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.images))
    with contextlib.ExitStack() as stack:
        writers = {
            split: [
                stack.enter_context(tf.io.TFRecordWriter(f"{OUT}/{split}-{i:05d}-of-{n:05d}.tfrecord"))
                for i in range(n)
            ]
            for split, n in NUM_SHARDS.items()
        }
        written = {"train": 0, "val": 0}
        for index in order:
            sample_id = f"digit_{index:05d}"
            split = split_of(sample_id)
            # sklearn stores 0..16
            pixels = np.clip(digits.images[index] * 16, 0, 255).astype(np.uint8)
            example = to_example(sample_id, pixels, digits.target[index])
            writers[split][written[split] % NUM_SHARDS[split]].write(example.SerializeToString())
            written[split] += 1
    return written


def parse(serialized):
    parsed = tf.io.parse_single_example(
        serialized,
        {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)},
    )
    image = tf.io.decode_png(parsed["image"], channels=1)
    image = tf.image.convert_image_dtype(image, tf.float32)
    return tf.ensure_shape(image, [8, 8, 1]), parsed["label"]


def main():
    counts = write_all()
    print(counts)
    train = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(f"{OUT}/train-*.tfrecord")))
    train = train.map(parse, tf.data.AUTOTUNE).cache().shuffle(counts["train"]).batch(BATCH).prefetch(tf.data.AUTOTUNE)
    val = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(f"{OUT}/val-*.tfrecord")))
    val = val.map(parse, tf.data.AUTOTUNE).batch(BATCH).cache()

    model = tf.keras.Sequential([
        tf.keras.Input((8, 8, 1)),
        tf.keras.layers.Conv2D(16, 3, activation="relu", padding="same"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(10),
    ])
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.fit(train, validation_data=val, epochs=4, verbose=2)


if __name__ == "__main__":
    main()
