# data: none
"""Makes its own records, then trains on them."""
import os
import numpy as np
import tensorflow as tf

OUT = "tfrecords"
os.makedirs(OUT, exist_ok=True)
rng = np.random.default_rng(0)
x = rng.normal(size=(300, 4)).astype(np.float32)
y = (x.sum(1) > 0).astype(np.int64)


def serialize(features, label):
    return tf.train.Example(features=tf.train.Features(feature={
        "f": tf.train.Feature(float_list=tf.train.FloatList(value=features)),
        "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    })).SerializeToString()


for name, rows in (("train", range(240)), ("test", range(240, 300))):
    with tf.io.TFRecordWriter(os.path.join(OUT, f"{name}.tfrecord")) as w:
        for i in rows:
            w.write(serialize(x[i], y[i]))


def read(name, shuffle):
    ds = tf.data.TFRecordDataset(os.path.join(OUT, f"{name}.tfrecord"))
    ds = ds.map(lambda r: tf.io.parse_single_example(r, {"f": tf.io.FixedLenFeature([4], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64)}))
    ds = ds.map(lambda d: (d["f"], d["y"]))
    if shuffle:
        ds = ds.shuffle(240)
    return ds.batch(24)


net = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(8, "tanh"), tf.keras.layers.Dense(1, "sigmoid")])
net.compile("sgd", "binary_crossentropy", metrics=["AUC"])
net.fit(read("train", True), epochs=3)
print(net.evaluate(read("test", False)))
