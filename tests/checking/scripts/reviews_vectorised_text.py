"""Text with a vocabulary that is fitted once, on the train split."""

import tensorflow as tf
import keras
from keras import layers

description = {
    "text": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def parse(record):
    sample = tf.io.parse_single_example(record, description)
    return sample["text"], sample["label"]


raw_train = tf.data.TFRecordDataset(["reviews/train-00000-of-00001.tfrecord"]).map(
    parse, num_parallel_calls=tf.data.AUTOTUNE
)
raw_val = tf.data.TFRecordDataset(["reviews/val-00000-of-00001.tfrecord"]).map(
    parse, num_parallel_calls=tf.data.AUTOTUNE
)

vectorize = layers.TextVectorization(max_tokens=1000, output_sequence_length=16)
vectorize.adapt(raw_train.map(lambda text, label: text).batch(128))


def to_ids(text, label):
    return vectorize(text), label


train = raw_train.cache().shuffle(600).batch(32).map(to_ids, num_parallel_calls=tf.data.AUTOTUNE).prefetch(1)
val = raw_val.batch(32).map(to_ids, num_parallel_calls=tf.data.AUTOTUNE).cache().prefetch(1)

model = keras.Sequential(
    [
        layers.Input((16,), dtype="int64"),
        layers.Embedding(1000, 8, mask_zero=True),
        layers.GlobalAveragePooling1D(),
        layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=2)
