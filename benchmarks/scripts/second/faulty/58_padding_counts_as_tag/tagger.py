"""Sequence tagger (5 tags) with a BiLSTM."""
import tensorflow as tf
from tensorflow.keras import Input, Model, layers

VOCAB = 500
TAGS = 5
MAXLEN = 20


def parse(rec):
    f = tf.io.parse_single_example(rec, {
        "tokens": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
        "tags": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
    })
    return f["tokens"], f["tags"]


def load(split, batch=30):
    ds = tf.data.TFRecordDataset(f"data/tags/{split}.tfrecord").map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    if split == "train":
        ds = ds.shuffle(300)
    # token id 0 is never used by the vocabulary, it is there for padding
    ds = ds.padded_batch(batch, padded_shapes=([MAXLEN], [MAXLEN]))
    return ds.prefetch(tf.data.AUTOTUNE)


tokens = Input((MAXLEN,), dtype="int32")
x = layers.Embedding(VOCAB, 32)(tokens)
x = layers.Bidirectional(layers.LSTM(16, return_sequences=True))(x)
probs = layers.Dense(TAGS, activation="softmax")(x)

model = Model(tokens, probs)
model.compile(
    optimizer=tf.keras.optimizers.Adam(1e-2),
    loss="sparse_categorical_crossentropy",
    weighted_metrics=["accuracy"],
)
model.fit(load("train"), validation_data=load("val"), epochs=3)
