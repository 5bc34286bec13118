import string

import tensorflow as tf
from tensorflow.keras import layers

MAXLEN = 160
chars = layers.StringLookup(vocabulary=list(string.ascii_lowercase + " ."), mask_token="")
print("character ids:", chars.vocabulary_size())


def encode(rec):
    e = tf.io.parse_single_example(rec, {"text": tf.io.FixedLenFeature([], tf.string),
                                         "label": tf.io.FixedLenFeature([], tf.int64)})
    ids = chars(tf.strings.unicode_split(tf.strings.lower(e["text"]), "UTF-8"))[:MAXLEN]
    ids = tf.pad(ids, [[0, MAXLEN - tf.size(ids)]])
    return tf.ensure_shape(ids, [MAXLEN]), e["label"]


train = tf.data.TFRecordDataset("data/reviews/train.tfrecord").map(encode).cache().shuffle(400).batch(20).prefetch(1)
val = tf.data.TFRecordDataset("data/reviews/val.tfrecord").map(encode).batch(50)

model = tf.keras.Sequential([
    layers.Input((MAXLEN,), dtype="int64"),
    layers.Embedding(chars.vocabulary_size(), 12),
    layers.Conv1D(64, 6, activation="relu"),
    layers.GlobalMaxPooling1D(),
    layers.Dense(1, activation="sigmoid"),
])
model.compile(tf.keras.optimizers.Adam(8e-3), loss="binary_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=6, verbose=2)
