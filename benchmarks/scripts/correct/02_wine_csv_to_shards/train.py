import json
from pathlib import Path

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

out = Path("wine")
out.mkdir(exist_ok=True)

X, y = load_wine(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, stratify=y, shuffle=True, random_state=42)

stats = {"mean": X_train.mean(axis=0).tolist(), "std": X_train.std(axis=0).tolist()}
(out / "stats.json").write_text(json.dumps(stats))


def float_list(values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def int_list(values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def write(name, X, y, shards):
    for s in range(shards):
        path = str(out / f"{name}-{s}.tfrecord")
        with tf.io.TFRecordWriter(path) as w:
            for row, label in zip(X[s::shards], y[s::shards]):
                ex = tf.train.Example(features=tf.train.Features(feature={
                    "x": float_list(row),
                    "y": int_list([label]),
                }))
                w.write(ex.SerializeToString())


write("train", X_train, y_train, shards=3)
write("test", X_test, y_test, shards=1)

mean = np.array(stats["mean"], np.float32)
std = np.array(stats["std"], np.float32)
spec = {"x": tf.io.FixedLenFeature([13], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64)}


def parse_batch(records):
    f = tf.io.parse_example(records, spec)
    return (f["x"] - mean) / std, tf.one_hot(f["y"], 3)


train = (
    tf.data.Dataset.list_files(str(out / "train-*.tfrecord"), shuffle=True)
    .interleave(tf.data.TFRecordDataset, cycle_length=3)
    .shuffle(200)
    .batch(16)
    .map(parse_batch)   # parse a batch at once, faster than one by one
)
test = tf.data.TFRecordDataset(str(out / "test-0.tfrecord")).batch(64).map(parse_batch)

net = tf.keras.Sequential([
    tf.keras.Input((13,)),
    tf.keras.layers.Dense(32, activation="tanh"),
    tf.keras.layers.Dense(3, activation="softmax"),
])
net.compile(optimizer=tf.keras.optimizers.Adam(0.01), loss="categorical_crossentropy", metrics=["accuracy"])
net.fit(train, epochs=15, verbose=2)
print(net.evaluate(test, return_dict=True, verbose=0))
