"""Padding has tag 0 like a real tag; the third element of each batch switches it off."""
import tensorflow as tf

MAXLEN = 20


def parse(record):
    row = tf.io.parse_single_example(record, {
        "tokens": tf.io.RaggedFeature(tf.int64),
        "tags": tf.io.RaggedFeature(tf.int64),
    })
    return row["tokens"], row["tags"], tf.ones_like(row["tags"], dtype=tf.float32)


def load(path, shuffle=False):
    ds = tf.data.TFRecordDataset(path).map(parse)
    if shuffle:
        ds = ds.shuffle(300)
    return ds.padded_batch(25, padded_shapes=([MAXLEN], [MAXLEN], [MAXLEN]))


tokens = tf.keras.Input((MAXLEN,), dtype="int64")
x = tf.keras.layers.Embedding(500, 24)(tokens)
x = tf.keras.layers.Conv1D(32, 3, padding="same", activation="relu")(x)
tags = tf.keras.layers.Dense(5)(x)
model = tf.keras.Model(tokens, tags)
model.compile(
    optimizer=tf.keras.optimizers.Adam(0.01),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    weighted_metrics=["accuracy"],
)
model.fit(load("data/tags/train.tfrecord", True), validation_data=load("data/tags/val.tfrecord"), epochs=5, verbose=2)
