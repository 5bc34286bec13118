import tensorflow as tf
import keras
from keras import layers

POS_WEIGHT = 3.0
JOBS = ["clerk", "farmer", "sales", "tech"]

columns = {
    "age": tf.io.FixedLenFeature([], tf.int64),
    "hours": tf.io.FixedLenFeature([], tf.float32),
    "gain": tf.io.FixedLenFeature([], tf.float32),
    "married": tf.io.FixedLenFeature([], tf.int64),
    "job": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}
job_index = layers.StringLookup(vocabulary=JOBS, num_oov_indices=0)


def features(row):
    num = tf.stack([
        tf.cast(row["age"], tf.float32) / 50.0 - 0.8,
        row["hours"] / 20.0 - 2.0,
        tf.math.log1p(row["gain"]) / 10.0,
        tf.cast(row["married"], tf.float32),
    ])
    return tf.concat([num, tf.one_hot(job_index(row["job"]), len(JOBS))], axis=0)


def to_training_tuple(rec):
    row = tf.io.parse_single_example(rec, columns)
    label = tf.cast(row["label"], tf.float32)
    weight = tf.where(label > 0, POS_WEIGHT, 1.0)
    return features(row), weight, label


def to_eval_pair(rec):
    row = tf.io.parse_single_example(rec, columns)
    return features(row), tf.cast(row["label"], tf.float32)


train = (tf.data.Dataset.list_files("data/adult/train-*.tfrecord")
         .interleave(tf.data.TFRecordDataset)
         .map(to_training_tuple)
         .shuffle(600)
         .batch(50)
         .prefetch(2))
val = tf.data.TFRecordDataset(["data/adult/val-00000-of-00001.tfrecord"]).map(to_eval_pair).batch(50)

model = keras.Sequential([
    keras.Input((8,)),
    layers.Dense(16, activation="relu"),
    layers.Dense(1, activation="sigmoid"),
])
model.compile("adam", "binary_crossentropy", metrics=[keras.metrics.AUC(name="auc")])
model.fit(train, validation_data=val, epochs=3, verbose=2)
