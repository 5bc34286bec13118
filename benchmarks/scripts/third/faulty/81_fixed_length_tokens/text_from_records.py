# Text classification straight from TFRecords
import tensorflow as tf

MAX_LEN = 40
spec = {
    "tokens": tf.io.FixedLenFeature([MAX_LEN], tf.int64),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def parse(record):
    row = tf.io.parse_single_example(record, spec)
    return row["tokens"], row["label"]


def load(pattern):
    return tf.data.TFRecordDataset(tf.data.Dataset.list_files(pattern)).map(parse)


# Shorter texts are padded with zeros, which the embedding masks.
train = load("data/tokens/train-*.tfrecord").shuffle(400).padded_batch(32, ([MAX_LEN], []))
val = load("data/tokens/val-*.tfrecord").padded_batch(32, ([MAX_LEN], []))

model = tf.keras.Sequential([
    tf.keras.layers.Input((MAX_LEN,), dtype="int64"),
    tf.keras.layers.Embedding(2000, 16, mask_zero=True),
    tf.keras.layers.GlobalAveragePooling1D(),
    tf.keras.layers.Dense(4, activation="softmax"),
])
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=4, verbose=2)
