import tensorflow as tf
from tensorflow import keras

VOCAB_SIZE = 500
N_TAGS = 5
MAX_LEN = 64


def parse_sentence(raw):
    parsed = tf.io.parse_single_example(raw, {
        "tokens": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
        "tags": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
    })
    return parsed["tokens"], parsed["tags"]


def make_dataset(path, training=False):
    ds = tf.data.TFRecordDataset(path).map(parse_sentence)
    if training:
        ds = ds.shuffle(300)
    return ds.padded_batch(20, padded_shapes=([MAX_LEN], [MAX_LEN]))


inputs = keras.Input((MAX_LEN,), dtype="int64")
x = keras.layers.Embedding(VOCAB_SIZE, 16)(inputs)
x = keras.layers.Bidirectional(keras.layers.LSTM(12, return_sequences=True))(x)
outputs = keras.layers.Dense(N_TAGS, activation="softmax")(x)
model = keras.Model(inputs, outputs)
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(make_dataset("data/tags/train.tfrecord", True), validation_data=make_dataset("data/tags/val.tfrecord"), epochs=4)
