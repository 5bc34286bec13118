"""Turn each gesture into a fixed vector of statistics, store it, train on it."""
import numpy as np
import tensorflow as tf
from tensorflow import keras

SPLITS = ("train", "val")
writers = {s: tf.io.TFRecordWriter(f"stats_{s}.tfrecord") for s in SPLITS}


def float_list(v):
    return tf.train.Feature(float_list=tf.train.FloatList(value=v))


def stats(frames):
    delta = np.diff(frames, axis=0)
    spectrum = np.abs(np.fft.rfft(frames, n=64, axis=0))[:24].T.reshape(-1) / len(frames)
    return np.concatenate([frames.std(0), np.abs(delta).mean(0), spectrum])


for split in SPLITS:
    for rec in tf.data.TFRecordDataset(f"data/gestures/{split}.tfrecord").as_numpy_iterator():
        seq = tf.train.SequenceExample.FromString(rec)
        frames = np.array([f.float_list.value for f in seq.feature_lists.feature_list["frames"].feature])
        label = seq.context.feature["label"].int64_list.value[0]
        ex = tf.train.Example(features=tf.train.Features(feature={
            "stats": float_list(stats(frames)),
            "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
        }))
        writers[split].write(ex.SerializeToString())
print("records written")

spec = {"stats": tf.io.FixedLenFeature([156], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)}


def load(split, shuffle=0):
    ds = tf.data.TFRecordDataset(f"stats_{split}.tfrecord").map(lambda r: tf.io.parse_single_example(r, spec))
    ds = ds.map(lambda d: (d["stats"], d["label"])).cache()
    if shuffle:
        ds = ds.shuffle(shuffle)
    return ds.batch(30).prefetch(tf.data.AUTOTUNE)


train, val = load("train", shuffle=300), load("val")
model = keras.Sequential([
    keras.Input((156,)),
    keras.layers.BatchNormalization(),
    keras.layers.Dense(32, activation="relu"),
    keras.layers.Dense(5, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=3)
