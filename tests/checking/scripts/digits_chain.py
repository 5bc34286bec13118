"""One chain over many lines, with lambdas, over gzip shards."""

import tensorflow as tf

SPEC = {
    "image_raw": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}

train_files = sorted(tf.io.gfile.glob("digits/train-*.tfrecord.gz"))
val_files = sorted(tf.io.gfile.glob("digits/val-*.tfrecord.gz"))

train = (
    tf.data.TFRecordDataset(train_files, compression_type="GZIP")
    .shuffle(600)
    .map(lambda record: tf.io.parse_single_example(record, SPEC), num_parallel_calls=tf.data.AUTOTUNE)
    .map(
        lambda sample: (
            tf.reshape(tf.io.decode_raw(sample["image_raw"], tf.uint8), [28, 28, 1]),
            sample["label"],
        ),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    .map(lambda image, label: (tf.cast(image, tf.float32) / 255.0, label), num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(600)
    .batch(64, drop_remainder=True)
    .prefetch(tf.data.AUTOTUNE)
)

val = (
    tf.data.TFRecordDataset(val_files, compression_type="GZIP")
    .map(lambda record: tf.io.parse_single_example(record, SPEC), num_parallel_calls=tf.data.AUTOTUNE)
    .map(
        lambda sample: (
            tf.cast(tf.reshape(tf.io.decode_raw(sample["image_raw"], tf.uint8), [28, 28, 1]), tf.float32) / 255.0,
            sample["label"],
        ),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    .batch(64)
    .prefetch(tf.data.AUTOTUNE)
)

model = tf.keras.Sequential(
    [
        tf.keras.Input((28, 28, 1)),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(32, activation="relu"),
        tf.keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=2)
