"""A subclassed model, functools.partial and datasets in a dict."""

import functools

import tensorflow as tf
from tensorflow import keras

SIDE = 28
KEYS = {
    "image_raw": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def decode(record, side):
    parsed = tf.io.parse_single_example(record, KEYS)
    pixels = tf.io.decode_raw(parsed["image_raw"], tf.uint8)
    image = tf.reshape(pixels, (side, side, 1))
    return tf.image.convert_image_dtype(image, tf.float32), parsed["label"]


def build(split, is_training):
    files = tf.data.Dataset.list_files(f"digits/{split}-*.tfrecord.gz", shuffle=is_training)
    dataset = tf.data.TFRecordDataset(files, compression_type="GZIP")
    if is_training:
        dataset = dataset.shuffle(600).repeat()
    dataset = dataset.map(functools.partial(decode, side=SIDE), num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.batch(50).prefetch(tf.data.AUTOTUNE)


class Classifier(keras.Model):
    def __init__(self, classes):
        super().__init__()
        self.flatten = keras.layers.Flatten()
        self.hidden = keras.layers.Dense(32, activation="relu")
        self.dropout = keras.layers.Dropout(0.1)
        self.head = keras.layers.Dense(classes)

    def call(self, inputs, training=None):
        x = self.hidden(self.flatten(inputs))
        return self.head(self.dropout(x, training=training))


datasets = {"train": build("train", True), "val": build("val", False)}
model = Classifier(10)
model.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(datasets["train"], steps_per_epoch=12, validation_data=datasets["val"], epochs=2)
