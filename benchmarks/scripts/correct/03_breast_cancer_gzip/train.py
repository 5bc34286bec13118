import argparse
import os

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_breast_cancer


def serialize(features, target, patient):
    return tf.train.Example(features=tf.train.Features(feature={
        'features': tf.train.Feature(float_list=tf.train.FloatList(value=features.astype(np.float32))),
        'malignant': tf.train.Feature(int64_list=tf.train.Int64List(value=[target])),
        'patient': tf.train.Feature(int64_list=tf.train.Int64List(value=[patient])),
    })).SerializeToString()


def prepare(directory, seed):
    data = load_breast_cancer()
    malignant = 1 - data.target            # sklearn: 0 = malignant
    rng = np.random.RandomState(seed)
    perm = rng.permutation(len(malignant))
    n_val = len(perm) // 5
    parts = {'val': perm[:n_val], 'train': perm[n_val:]}
    options = tf.io.TFRecordOptions(compression_type='GZIP')
    for split, ids in parts.items():
        with tf.io.TFRecordWriter(os.path.join(directory, split + '.tfrecord.gz'), options) as writer:
            for i in ids:
                writer.write(serialize(data.data[i], int(malignant[i]), int(i)))
    return {k: len(v) for k, v in parts.items()}


def load(path, batch_size, training, size):
    ds = tf.data.TFRecordDataset(path, compression_type='GZIP')
    if training:
        ds = ds.shuffle(size, reshuffle_each_iteration=True)
    ds = ds.batch(batch_size)

    def parse(batch):
        ex = tf.io.parse_example(batch, {
            'features': tf.io.FixedLenFeature((30,), tf.float32),
            'malignant': tf.io.FixedLenFeature((1,), tf.int64),
        })
        return ex['features'], tf.cast(ex['malignant'], tf.float32)

    return ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(1)


def main(args):
    tf.keras.utils.set_random_seed(args.seed)
    os.makedirs(args.data_dir, exist_ok=True)
    n = prepare(args.data_dir, args.seed)
    train = load(os.path.join(args.data_dir, 'train.tfrecord.gz'), args.batch_size, True, n['train'])
    val = load(os.path.join(args.data_dir, 'val.tfrecord.gz'), args.batch_size, False, n['val'])

    norm = tf.keras.layers.Normalization()
    norm.adapt(train.map(lambda x, y: x))
    model = tf.keras.Sequential([
        tf.keras.Input(shape=(30,)),
        norm,
        tf.keras.layers.Dense(args.units, activation='relu'),
        tf.keras.layers.Dropout(0.2),
        tf.keras.layers.Dense(1),
    ])
    model.compile(
        optimizer=tf.keras.optimizers.Adam(args.lr),
        loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[
            tf.keras.metrics.BinaryAccuracy(threshold=0.0),   # logits
            tf.keras.metrics.AUC(from_logits=True),
        ],
    )
    model.fit(train, epochs=args.epochs, validation_data=val, verbose=2)


if __name__ == '__main__':
    p = argparse.ArgumentParser()
    p.add_argument('--data_dir', default='bc_records')
    p.add_argument('--batch_size', type=int, default=32)
    p.add_argument('--units', type=int, default=16)
    p.add_argument('--lr', type=float, default=5e-3)
    p.add_argument('--epochs', type=int, default=6)
    p.add_argument('--seed', type=int, default=1)
    main(p.parse_args())
