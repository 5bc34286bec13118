"""Plain functions, one dataset for each split."""

import tensorflow as tf
from tensorflow import keras

AUTOTUNE = tf.data.AUTOTUNE
BATCH = 32

feature_description = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def parse(record):
    sample = tf.io.parse_single_example(record, feature_description)
    image = tf.io.decode_jpeg(sample["image"], channels=3)
    image = tf.image.convert_image_dtype(image, tf.float32)
    image = tf.image.resize(image, [32, 32])
    return image, sample["label"]


def augment(image, label):
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, 0.1)
    return image, label


def load_train(pattern):
    files = tf.data.Dataset.list_files(pattern, shuffle=True)
    dataset = files.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=AUTOTUNE)
    dataset = dataset.shuffle(1000)
    dataset = dataset.map(parse, num_parallel_calls=AUTOTUNE)
    dataset = dataset.map(augment, num_parallel_calls=AUTOTUNE)
    dataset = dataset.batch(BATCH)
    return dataset.prefetch(AUTOTUNE)


def load_val(pattern):
    files = tf.data.Dataset.list_files(pattern, shuffle=False)
    dataset = tf.data.TFRecordDataset(files)
    dataset = dataset.map(parse, num_parallel_calls=AUTOTUNE)
    dataset = dataset.batch(BATCH)
    return dataset.prefetch(AUTOTUNE)


train = load_train("photos/train-*.tfrecord")
val = load_val("photos/val-*.tfrecord")

model = keras.Sequential(
    [
        keras.layers.Input((32, 32, 3)),
        keras.layers.Conv2D(8, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(4),
    ]
)
model.compile(
    optimizer="adam",
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(train, validation_data=val, epochs=2)
