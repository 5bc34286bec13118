import tensorflow as tf

VOCAB = 2000      # ids 1..1999, 0 is padding
MAX_LEN = 40
N_CLASSES = 4


def parse(serialized):
    parsed = tf.io.parse_single_example(serialized, {
        "tokens": tf.io.VarLenFeature(tf.int64),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    tokens = tf.sparse.to_dense(parsed["tokens"], default_value=0)
    return tokens, parsed["label"]


def dataset(pattern, training):
    files = tf.data.Dataset.list_files(pattern, shuffle=training)
    ds = tf.data.TFRecordDataset(files).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    if training:
        ds = ds.shuffle(400)
    return ds.padded_batch(32, padded_shapes=([MAX_LEN], [])).prefetch(tf.data.AUTOTUNE)


model = tf.keras.Sequential([
    tf.keras.Input((MAX_LEN,), dtype="int64"),
    tf.keras.layers.Embedding(VOCAB, 24, mask_zero=True),
    tf.keras.layers.LSTM(24),
    tf.keras.layers.Dense(N_CLASSES, activation="softmax"),
])
model.compile(tf.keras.optimizers.Adam(1e-2), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(
    dataset("data/tokens/train-*.tfrecord", True),
    validation_data=dataset("data/tokens/val-*.tfrecord", False),
    epochs=5,
    verbose=2,
)
