"""
Title: Data augmentation in the input pipeline
Description: tf.data with random crops and colour changes.
"""
import keras
import tensorflow as tf
from keras import layers

CLASS_NAMES = ["bird", "cat", "dog"]
lookup = layers.StringLookup(vocabulary=CLASS_NAMES, num_oov_indices=0)


def parse(record):
    row = tf.io.parse_single_example(
        record, {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.string)}
    )
    image = tf.ensure_shape(tf.io.decode_png(row["image"], channels=3), (48, 48, 3))
    return tf.image.convert_image_dtype(image, tf.float32), lookup(row["label"])


def augment(image, label):
    image = tf.image.random_crop(image, (44, 44, 3))
    image = tf.image.resize(image, (48, 48))
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_saturation(image, 0.8, 1.2)
    return image, label


"""
## Pipelines
"""


def make(pattern, training):
    ds = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(pattern)))
    ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    if training:
        ds = ds.map(augment, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.cache().shuffle(240)
    return ds.batch(24).prefetch(tf.data.AUTOTUNE)


train_ds = make("data/animals/train-*.tfrecord", True)
val_ds = make("data/animals/val-*.tfrecord", False)

model = keras.Sequential(
    [
        keras.Input((48, 48, 3)),
        layers.Conv2D(16, 3, strides=2, activation="relu"),
        layers.Conv2D(32, 3, strides=2, activation="relu"),
        layers.GlobalMaxPooling2D(),
        layers.Dense(3, activation="softmax"),
    ]
)
model.compile(keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=6, verbose=2)
