import argparse
import glob

import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--train_files", default="data/adult/train-*.tfrecord")
parser.add_argument("--eval_files", default="data/adult/val-*.tfrecord")
parser.add_argument("--batch_size", type=int, default=64)
parser.add_argument("--epochs", type=int, default=5)
args = parser.parse_args()

JOBS = ["clerk", "farmer", "sales", "tech"]

feature_spec = {
    "age": tf.io.FixedLenFeature([], tf.int64),
    "hours": tf.io.FixedLenFeature([], tf.float32),
    "gain": tf.io.FixedLenFeature([], tf.float32),
    "job": tf.io.FixedLenFeature([], tf.string),
    "married": tf.io.FixedLenFeature([], tf.int64),
    "label": tf.io.FixedLenFeature([], tf.float32),
}

job_lookup = tf.keras.layers.StringLookup(vocabulary=JOBS, output_mode="one_hot", num_oov_indices=1)


def to_vector(batch):
    feats = tf.io.parse_example(batch, feature_spec)
    label = feats.pop("label")
    numeric = tf.stack(
        [
            tf.cast(feats["age"], tf.float32) / 90.0,
            feats["hours"] / 90.0,
            tf.math.log1p(feats["gain"]) / 12.0,
            tf.cast(feats["married"], tf.float32),
        ],
        axis=1,
    )
    jobs = tf.cast(job_lookup(feats["job"]), tf.float32)
    return tf.concat([numeric, jobs], axis=1), label


def make_ds(pattern, training):
    ds = tf.data.TFRecordDataset(sorted(glob.glob(pattern)))
    if training:
        ds = ds.shuffle(1000)
    return ds.batch(args.batch_size).map(to_vector).prefetch(2)


model = tf.keras.Sequential(
    [
        tf.keras.Input((9,)),
        tf.keras.layers.Dense(32, activation="relu"),
        tf.keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=["AUC"])
model.fit(make_ds(args.train_files, True), validation_data=make_ds(args.eval_files, False), epochs=args.epochs)
