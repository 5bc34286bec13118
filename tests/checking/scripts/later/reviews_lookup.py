"""Written after the rules: StringLookup with a vocabulary from a file, ragged batches."""

import tensorflow as tf
from tensorflow import keras

vocabulary = [line.strip() for line in open("vocabulary.txt", encoding="utf-8")]
lookup = keras.layers.StringLookup(vocabulary=vocabulary, mask_token="")


def parse(record):
    fields = {"text": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    row = tf.io.parse_single_example(record, fields)
    return lookup(tf.strings.split(row["text"])), row["label"]


def load(name, training):
    records = tf.data.TFRecordDataset([f"reviews/{name}-00000-of-00001.tfrecord"])
    if training:
        records = records.shuffle(600, reshuffle_each_iteration=True)
    pairs = records.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return pairs.padded_batch(32, padded_shapes=([None], [])).prefetch(tf.data.AUTOTUNE)


model = keras.Sequential(
    [
        keras.layers.Embedding(len(vocabulary) + 2, 16, mask_zero=True),
        keras.layers.LSTM(16),
        keras.layers.Dense(1),
    ]
)
model.compile(optimizer="adam", loss=keras.losses.BinaryCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(load("train", True), validation_data=load("val", False), epochs=2)
