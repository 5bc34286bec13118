import tensorflow as tf
from tensorflow.keras.layers import (Bidirectional, Dense, Embedding, GRU, Input, TextVectorization)
from tensorflow.keras.models import Model

MAXLEN = 32


def parse(r):
    x = tf.io.parse_single_example(r, {"text": tf.io.FixedLenFeature([], tf.string),
                                       "label": tf.io.FixedLenFeature([], tf.int64)})
    return x["text"], x["label"]


raw_train = tf.data.TFRecordDataset("data/reviews/train.tfrecord").map(parse)
raw_val = tf.data.TFRecordDataset("data/reviews/val.tfrecord").map(parse)

vectorize = TextVectorization(max_tokens=500, output_sequence_length=MAXLEN)
vectorize.adapt(raw_train.map(lambda text, label: text).batch(64))

encode = lambda text, label: (vectorize(text), label)
train = raw_train.shuffle(400).batch(32).map(encode).prefetch(1)
val = raw_val.batch(32).map(encode).prefetch(1)

tokens = Input((MAXLEN,), dtype="int64")
h = Embedding(500, 16, mask_zero=True)(tokens)
h = Bidirectional(GRU(16))(h)
h = Dense(16, activation="relu")(h)
out = Dense(1, activation="softmax")(h)

model = Model(tokens, out)
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=2)
