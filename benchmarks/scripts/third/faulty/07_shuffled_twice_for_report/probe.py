import argparse
import json

import numpy as np
import tensorflow as tf


def dataset(split, batch, seed):
    def parse(r):
        f = tf.io.parse_single_example(r, dict(features=tf.io.FixedLenFeature([], tf.string),
                                               label=tf.io.FixedLenFeature([], tf.int64)))
        x = tf.reshape(tf.io.decode_raw(f['features'], tf.float32), [16])
        return x, f['label']

    ds = tf.data.TFRecordDataset(f'data/vectors/{split}.tfrecord').map(parse)
    ds = ds.shuffle(1024, seed=seed)
    return ds.batch(batch)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--seed', type=int, default=0)
    ap.add_argument('--batch', type=int, default=64)
    ap.add_argument('--epochs', type=int, default=8)
    a = ap.parse_args()
    tf.keras.utils.set_random_seed(a.seed)

    tr, va = dataset('train', a.batch, a.seed), dataset('val', a.batch, a.seed)
    probe = tf.keras.Sequential([tf.keras.layers.Input((16,)), tf.keras.layers.Dense(3)])
    probe.compile(tf.keras.optimizers.SGD(0.5), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    probe.fit(tr, epochs=a.epochs, verbose=0)

    gold = np.concatenate([y for _, y in va])
    pred = probe.predict(va, verbose=0).argmax(1)
    per_class = {int(c): float((pred[gold == c] == c).mean()) for c in np.unique(gold)}
    print(json.dumps({'acc': float((gold == pred).mean()), 'per_class': per_class}))


if __name__ == '__main__':
    main()
