"""A class that holds the settings of its pipeline."""

import os

import tensorflow as tf


class PhotoPipeline:
    def __init__(self, folder, image_size=32, batch_size=16):
        self.folder = folder
        self.image_size = image_size
        self.batch_size = batch_size
        self.spec = {
            "image": tf.io.FixedLenFeature((), tf.string),
            "label": tf.io.FixedLenFeature((), tf.int64),
        }

    def _parse(self, record):
        parsed = tf.io.parse_single_example(record, self.spec)
        image = tf.io.decode_jpeg(parsed["image"], channels=3)
        image = tf.image.resize(image, (self.image_size, self.image_size)) / 255.0
        return image, parsed["label"]

    def _augment(self, image, label):
        return tf.image.random_flip_left_right(image), label

    def _open(self, split):
        pattern = os.path.join(self.folder, split + "-*.tfrecord")
        return tf.data.TFRecordDataset(tf.io.gfile.glob(pattern))

    def train(self):
        ds = self._open("train")
        ds = ds.shuffle(400)
        ds = ds.map(self._parse, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.map(self._augment, num_parallel_calls=tf.data.AUTOTUNE)
        return ds.batch(self.batch_size).prefetch(tf.data.AUTOTUNE)

    def val(self):
        ds = self._open("val").map(self._parse, num_parallel_calls=tf.data.AUTOTUNE)
        return ds.batch(self.batch_size).prefetch(tf.data.AUTOTUNE)


def build_model(classes):
    inputs = tf.keras.Input((32, 32, 3))
    x = tf.keras.layers.Conv2D(8, 3, activation="relu")(inputs)
    x = tf.keras.layers.BatchNormalization()(x)
    x = tf.keras.layers.GlobalMaxPooling2D()(x)
    outputs = tf.keras.layers.Dense(classes, activation="softmax")(x)
    return tf.keras.Model(inputs, outputs)


if __name__ == "__main__":
    pipeline = PhotoPipeline("photos")
    model = build_model(4)
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(pipeline.train(), validation_data=pipeline.val(), epochs=2)
