import glob

import keras
import tensorflow as tf
from keras import layers

NUMERIC = ["age", "hours", "gain"]


def parse(rec):
    r = tf.io.parse_single_example(rec, {
        "age": tf.io.FixedLenFeature([], tf.int64),
        "hours": tf.io.FixedLenFeature([], tf.float32),
        "gain": tf.io.FixedLenFeature([], tf.float32),
        "married": tf.io.FixedLenFeature([1], tf.int64),
        "job": tf.io.FixedLenFeature([1], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    numeric = tf.stack([tf.cast(r[name], tf.float32) for name in NUMERIC])
    x = {"numeric": numeric, "married": tf.cast(r["married"], tf.float32), "job": r["job"]}
    return x, r["label"]


def dataset(split):
    ds = tf.data.TFRecordDataset(sorted(glob.glob(f"data/adult/{split}-*.tfrecord"))).map(parse).cache()
    if split == "train":
        ds = ds.shuffle(600)
    return ds.batch(50).prefetch(tf.data.AUTOTUNE)


train, val = dataset("train"), dataset("val")

numeric_in = keras.Input((3,), name="numeric")
married_in = keras.Input((1,), name="married")
job_in = keras.Input((1,), name="job", dtype="string")

normalizer = layers.Normalization(axis=-1)
jobs = layers.StringLookup(output_mode="one_hot")
jobs.adapt(train.map(lambda x, y: x["job"]))

x = layers.Concatenate()([normalizer(numeric_in), married_in, jobs(job_in)])
x = layers.Dense(32, activation="relu")(x)
x = layers.Dense(16, activation="relu")(x)
out = layers.Dense(1, activation="sigmoid")(x)

model = keras.Model({"numeric": numeric_in, "married": married_in, "job": job_in}, out)
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy", keras.metrics.AUC(name="auc")])
model.fit(train, validation_data=val, epochs=3, verbose=2)
