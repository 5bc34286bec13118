#!/usr/bin/env python
"""Train on shapes.  --smoke runs two steps on a few records to see that everything fits together."""
import argparse
import sys

import tensorflow as tf


def get_args(argv=None):
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument('--train', default='data/shapes/train-*.tfrecord')
    ap.add_argument('--val', default='data/shapes/val-*.tfrecord')
    ap.add_argument('--epochs', type=int, default=20)
    ap.add_argument('--batch', type=int, default=32)
    ap.add_argument('--smoke', action='store_true')
    return ap.parse_args(argv)


def parse(rec):
    d = tf.io.parse_single_example(rec, {
        'image/encoded': tf.io.FixedLenFeature([], tf.string),
        'image/class/label': tf.io.FixedLenFeature([], tf.int64),
    })
    img = tf.io.decode_jpeg(d['image/encoded'], channels=3)
    return tf.ensure_shape(tf.cast(img, tf.float32) / 255., [32, 32, 3]), d['image/class/label']


def main(args):
    train = tf.data.TFRecordDataset(tf.io.gfile.glob(args.train)).map(parse).shuffle(1000).batch(args.batch)
    val = tf.data.TFRecordDataset(tf.io.gfile.glob(args.val)).map(parse).batch(args.batch)
    epochs = args.epochs
    if args.smoke:
        train, val, epochs = train.take(2), val.take(1), 1

    model = tf.keras.Sequential([
        tf.keras.Input((32, 32, 3)),
        tf.keras.layers.Conv2D(16, 3, strides=2, activation='relu'),
        tf.keras.layers.Conv2D(32, 3, strides=2, activation='relu'),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(4, activation='softmax'),
    ])
    model.compile(tf.keras.optimizers.Adam(1e-3), 'sparse_categorical_crossentropy', metrics=['accuracy'])
    model.fit(train.prefetch(2), validation_data=val, epochs=epochs, verbose=2)
    return 0


if __name__ == '__main__':
    sys.exit(main(get_args()))
