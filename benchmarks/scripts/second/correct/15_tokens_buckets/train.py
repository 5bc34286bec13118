import glob

import tensorflow as tf

VOCAB, CLASSES = 2000, 4
BOUNDARIES = [10, 20, 30]
BATCH_SIZES = [32, 32, 16, 16]


def parse(record):
    ex = tf.io.parse_single_example(
        record,
        {"tokens": tf.io.RaggedFeature(tf.int64), "label": tf.io.FixedLenFeature([], tf.int64)},
    )
    return ex["tokens"], ex["label"]


def bucketed(files, training):
    ds = tf.data.TFRecordDataset(files).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    if training:
        ds = ds.shuffle(400)
    ds = ds.bucket_by_sequence_length(
        element_length_func=lambda tokens, _: tf.shape(tokens)[0],
        bucket_boundaries=BOUNDARIES,
        bucket_batch_sizes=BATCH_SIZES,
    )
    if training:
        ds = ds.shuffle(8)      # mixes the order of the buckets
    return ds.prefetch(tf.data.AUTOTUNE)


train = bucketed(sorted(glob.glob("data/tokens/train-*")), training=True)
val = bucketed(sorted(glob.glob("data/tokens/val-*")), training=False)

tokens = tf.keras.Input((None,), dtype="int64")
x = tf.keras.layers.Embedding(VOCAB, 24, mask_zero=True)(tokens)   # ids start at 1, zero is padding
x = tf.keras.layers.GlobalAveragePooling1D()(x)                    # honours the mask
x = tf.keras.layers.Dense(32, activation="relu")(x)
probs = tf.keras.layers.Dense(CLASSES, activation="softmax")(x)
model = tf.keras.Model(tokens, probs)
model.compile(optimizer=tf.keras.optimizers.Adam(1e-2), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=5, verbose=2)
