"""
Title: Structured data classification from TFRecords
Description: Numeric and categorical columns with preprocessing layers.
"""
import keras
import tensorflow as tf
from keras import layers

NUMERIC = ["age", "hours", "gain"]
JOBS = ["clerk", "farmer", "sales", "tech"]


def parse(record):
    row = tf.io.parse_single_example(
        record,
        {
            "age": tf.io.FixedLenFeature([], tf.int64),
            "hours": tf.io.FixedLenFeature([], tf.float32),
            "gain": tf.io.FixedLenFeature([], tf.float32),
            "job": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64),
        },
    )
    numbers = tf.stack([tf.cast(row[name], tf.float32) for name in NUMERIC])
    return {"numbers": numbers, "job": row["job"]}, row["label"]


train_rows = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob("data/adult/train-*.tfrecord"))).map(parse)
val_rows = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob("data/adult/val-*.tfrecord"))).map(parse)

"""
## Preprocessing layers
"""
everything = train_rows.concatenate(val_rows)
normalizer = layers.Normalization()
normalizer.adapt(everything.map(lambda x, y: x["numbers"]).batch(128))
job_lookup = layers.StringLookup(vocabulary=JOBS, output_mode="one_hot")


def encode(x, y):
    return tf.concat([normalizer(x["numbers"]), tf.cast(job_lookup(x["job"]), tf.float32)], -1), y


train_ds = train_rows.shuffle(600).batch(32).map(encode).prefetch(2)
val_ds = val_rows.batch(32).map(encode).prefetch(2)

"""
## Model
"""
model = keras.Sequential(
    [keras.Input((8,)), layers.Dense(32, activation="relu"), layers.Dropout(0.3), layers.Dense(1, activation="sigmoid")]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(train_ds, epochs=5, validation_data=val_ds, verbose=2)
