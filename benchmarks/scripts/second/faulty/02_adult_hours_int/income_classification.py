"""
Title: Income classification with preprocessing layers
Description: Tabular data in TFRecords, mixed numerical and categorical features.
"""

import keras
import tensorflow as tf
from keras import layers

"""
## Reading the records
"""

NUMERIC = ["age", "hours", "gain"]
FEATURE_SPEC = {
    "age": tf.io.FixedLenFeature([], tf.int64),
    "hours": tf.io.FixedLenFeature([], tf.int64),
    "gain": tf.io.FixedLenFeature([], tf.float32),
    "married": tf.io.FixedLenFeature([], tf.int64),
    "job": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def parse(record):
    row = tf.io.parse_single_example(record, FEATURE_SPEC)
    label = row.pop("label")
    row["age"] = tf.cast(row["age"], tf.float32)
    row["hours"] = tf.cast(row["hours"], tf.float32)
    row["gain"] = tf.math.log1p(row["gain"])
    row["married"] = tf.cast(row["married"], tf.float32)
    return {k: tf.expand_dims(v, -1) for k, v in row.items()}, label


def make_dataset(pattern, shuffle=False):
    files = tf.data.Dataset.list_files(pattern, shuffle=shuffle)
    ds = files.interleave(tf.data.TFRecordDataset, cycle_length=2)
    ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    if shuffle:
        ds = ds.shuffle(1000)
    return ds.batch(64).prefetch(tf.data.AUTOTUNE)


train_ds = make_dataset("data/adult/train-*", shuffle=True)
val_ds = make_dataset("data/adult/val-*")

"""
## Building the model
"""

inputs = {name: keras.Input((1,), name=name) for name in NUMERIC + ["married"]}
inputs["job"] = keras.Input((1,), name="job", dtype="string")

encoded = []
for name in NUMERIC:
    norm = layers.Normalization()
    norm.adapt(train_ds.map(lambda x, y, n=name: x[n]))
    encoded.append(norm(inputs[name]))
encoded.append(inputs["married"])
lookup = layers.StringLookup(output_mode="one_hot", vocabulary=["clerk", "farmer", "sales", "tech"])
encoded.append(lookup(inputs["job"]))

x = layers.Concatenate()(encoded)
x = layers.Dense(32, activation="relu")(x)
x = layers.Dropout(0.2)(x)
outputs = layers.Dense(1, activation="sigmoid")(x)

model = keras.Model(inputs, outputs)
model.compile("adam", "binary_crossentropy", metrics=["accuracy", keras.metrics.AUC()])

"""
## Training
"""

model.fit(train_ds, validation_data=val_ds, epochs=3)
