import os
import tempfile

import numpy as np
import tensorflow as tf

OUT_DIR = tempfile.mkdtemp()


def _float_feature(values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def _int64_feature(value):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


def read_source(path):
    """Yield numpy vectors with their labels."""
    for raw in tf.data.TFRecordDataset(path).as_numpy_iterator():
        ex = tf.train.Example.FromString(raw)
        yield (
            np.frombuffer(ex.features.feature["features"].bytes_list.value[0], dtype="<f4"),
            ex.features.feature["label"].int64_list.value[0],
        )


def convert(src, dst):
    for vec, label in read_source(src):
        vec = (vec - vec.mean()) / vec.std()
        feature = {"vec": _float_feature(vec.tolist()), "label": _int64_feature(label)}
        example = tf.train.Example(features=tf.train.Features(feature=feature))
        with tf.io.TFRecordWriter(dst) as writer:
            writer.write(example.SerializeToString())


def input_fn(path, training):
    spec = {"vec": tf.io.FixedLenFeature([16], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)}

    def parse(s):
        p = tf.io.parse_single_example(s, spec)
        return p["vec"], p["label"]

    ds = tf.data.TFRecordDataset(path).map(parse)
    if training:
        ds = ds.shuffle(400)
    return ds.batch(32)


if __name__ == "__main__":
    train_path = os.path.join(OUT_DIR, "train.tfrecord")
    val_path = os.path.join(OUT_DIR, "val.tfrecord")
    convert("data/vectors/train.tfrecord", train_path)
    convert("data/vectors/val.tfrecord", val_path)

    model = tf.keras.Sequential([
        tf.keras.Input((16,)),
        tf.keras.layers.Dense(32, activation="relu"),
        tf.keras.layers.Dense(3, activation="softmax"),
    ])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(input_fn(train_path, True), validation_data=input_fn(val_path, False), epochs=8, verbose=2)
