#!/usr/bin/env python
import argparse
from pathlib import Path

import tensorflow as tf
from tensorflow.keras import layers


def parse_args():
    p = argparse.ArgumentParser(description="topic classifier on pre-tokenised documents")
    p.add_argument("--data", type=Path, default=Path("data/tokens"))
    p.add_argument("--vocab-size", type=int, default=2000)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--lr", type=float, default=2e-3)
    return p.parse_args()


def decode(rec):
    feats = tf.io.parse_single_example(
        rec,
        {
            "tokens": tf.io.FixedLenFeature([], tf.int64),
            "label": tf.io.FixedLenFeature([], tf.int64),
        },
    )
    return feats["tokens"], feats["label"]


def load(folder, split, batch_size, shuffle):
    files = sorted(str(f) for f in folder.glob(f"{split}-*.tfrecord"))
    ds = tf.data.TFRecordDataset(files).map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    if shuffle:
        ds = ds.shuffle(1000, seed=1)
    ds = ds.padded_batch(batch_size, padded_shapes=([None], []))
    return ds.prefetch(tf.data.AUTOTUNE)


def build(vocab_size):
    return tf.keras.Sequential([
        layers.Input((None,), dtype="int64"),
        layers.Embedding(vocab_size, 32, mask_zero=True),
        layers.GlobalAveragePooling1D(),
        layers.Dense(32, activation="relu"),
        layers.Dense(4),
    ])


def main():
    args = parse_args()
    train = load(args.data, "train", args.batch_size, True)
    val = load(args.data, "val", args.batch_size, False)
    model = build(args.vocab_size)
    model.compile(
        optimizer=tf.keras.optimizers.Adam(args.lr),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(train, validation_data=val, epochs=args.epochs, verbose=2)


if __name__ == "__main__":
    main()
