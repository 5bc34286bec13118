"""Classify shapes from sharded TFRecords.

The converter wrote the records in random order, so the shards are shuffled by name, read four at a time and
mixed in a small buffer. That is enough randomness and keeps memory flat.
"""
import tensorflow as tf

AUTOTUNE = tf.data.AUTOTUNE
BATCH = 32

SPEC = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
}


def parse(record):
    example = tf.io.parse_single_example(record, SPEC)
    image = tf.io.decode_jpeg(example["image/encoded"], channels=3)
    image = tf.image.convert_image_dtype(image, tf.float32)
    image = tf.ensure_shape(image, [32, 32, 3])
    return image, example["image/class/label"]


def training_set():
    files = tf.data.Dataset.list_files("data/shapes/train-*.tfrecord", shuffle=True)
    ds = files.interleave(
        tf.data.TFRecordDataset, cycle_length=4, block_length=8, num_parallel_calls=AUTOTUNE, deterministic=False
    )
    return ds.shuffle(64).map(parse, num_parallel_calls=AUTOTUNE).batch(BATCH).prefetch(AUTOTUNE)


def validation_set():
    files = sorted(tf.io.gfile.glob("data/shapes/val-*.tfrecord"))
    return tf.data.TFRecordDataset(files).map(parse, num_parallel_calls=AUTOTUNE).batch(BATCH).prefetch(AUTOTUNE)


model = tf.keras.Sequential(
    [
        tf.keras.Input((32, 32, 3)),
        tf.keras.layers.Conv2D(16, 3, activation="relu"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Conv2D(32, 3, activation="relu"),
        tf.keras.layers.GlobalMaxPooling2D(),
        tf.keras.layers.Dense(32, activation="relu"),
        tf.keras.layers.Dense(4, activation="softmax"),
    ]
)
model.compile(
    optimizer=tf.keras.optimizers.Adam(3e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"]
)
model.fit(training_set(), validation_data=validation_set(), epochs=6, verbose=2)
