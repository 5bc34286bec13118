"""Fully convolutional, so any input size should do."""
import argparse

import tensorflow as tf


def load(split, bs):
    def parse(r):
        e = tf.io.parse_single_example(r, {'image': tf.io.FixedLenFeature([], tf.string),
                                           'label': tf.io.FixedLenFeature([], tf.int64)})
        x = tf.io.decode_jpeg(e['image'], channels=3)
        return tf.cast(x, tf.float32) / 255., e['label']
    ds = tf.data.TFRecordDataset(f'data/sizes/{split}.tfrecord').map(parse)
    if split == 'train':
        ds = ds.shuffle(200)
    return ds.batch(bs)


def build(width):
    x = inp = tf.keras.Input((None, None, 3))
    for k in (1, 2):
        x = tf.keras.layers.Conv2D(width * k, 3, 2, activation='relu')(x)
    x = tf.keras.layers.GlobalMaxPooling2D()(x)
    return tf.keras.Model(inp, tf.keras.layers.Dense(3)(x))


if __name__ == '__main__':
    p = argparse.ArgumentParser()
    p.add_argument('--width', type=int, default=16)
    p.add_argument('--bs', type=int, default=20)
    a = p.parse_args()
    net = build(a.width)
    net.compile(tf.keras.optimizers.Adam(3e-3), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                metrics=['accuracy'])
    net.fit(load('train', a.bs), validation_data=load('val', a.bs), epochs=4, verbose=2)
