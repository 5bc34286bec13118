"""Written after the rules: preprocessing of a known application, a frozen base, two phases."""

import tensorflow as tf
from tensorflow import keras
from tensorflow.keras.applications.mobilenet_v2 import MobileNetV2, preprocess_input

keras.mixed_precision.set_global_policy("float32")
SPEC = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


def parse(record, augment=False):
    sample = tf.io.parse_single_example(record, SPEC)
    image = tf.image.decode_jpeg(sample["image"], channels=3)
    if augment:
        image = tf.image.random_flip_left_right(image)
    image = tf.image.resize(image, (32, 32))
    return preprocess_input(image), sample["label"]


def make(pattern, augment):
    records = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(pattern)))
    if augment:
        records = records.shuffle(400)
    return (
        records.map(lambda record: parse(record, augment), num_parallel_calls=tf.data.AUTOTUNE)
        .batch(32)
        .prefetch(tf.data.AUTOTUNE)
    )


train, val = make("photos/train-*.tfrecord", True), make("photos/val-*.tfrecord", False)
base = MobileNetV2(input_shape=(32, 32, 3), include_top=False, weights="imagenet", pooling="avg")
base.trainable = False
model = keras.Sequential([base, keras.layers.Dropout(0.2), keras.layers.Dense(4, activation="softmax")])
model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=1)
base.trainable = True
model.compile(keras.optimizers.Adam(1e-5), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=1)
