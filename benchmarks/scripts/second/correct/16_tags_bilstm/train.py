"""Tag every token. Padding has id 0 and does not count in the loss nor in the accuracy."""
import tensorflow as tf
from tensorflow import keras

NUM_WORDS, NUM_TAGS = 500, 5


def parse(r):
    ex = tf.io.parse_single_example(r, {
        "tokens": tf.io.VarLenFeature(tf.int64),
        "tags": tf.io.VarLenFeature(tf.int64),
    })
    return tf.sparse.to_dense(ex["tokens"]), tf.sparse.to_dense(ex["tags"])


def with_weights(tokens, tags):
    return tokens, tags, tf.cast(tokens > 0, tf.float32)


def build_ds(path, train):
    ds = tf.data.TFRecordDataset(path).map(parse)
    if train:
        ds = ds.shuffle(300)
    return ds.padded_batch(20, padded_shapes=([None], [None])).map(with_weights).prefetch(tf.data.AUTOTUNE)


model = keras.Sequential([
    keras.Input((None,), dtype="int64"),
    keras.layers.Embedding(NUM_WORDS, 24, mask_zero=True),
    keras.layers.Bidirectional(keras.layers.LSTM(24, return_sequences=True)),
    keras.layers.Dense(NUM_TAGS, activation="softmax"),
])
model.compile(
    optimizer=keras.optimizers.Adam(2e-2),
    loss="sparse_categorical_crossentropy",
    weighted_metrics=["sparse_categorical_accuracy"],
)
model.fit(build_ds("data/tags/train.tfrecord", True), validation_data=build_ds("data/tags/val.tfrecord", False),
          epochs=4, verbose=2)
