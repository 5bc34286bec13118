"""Written after the rules: settings in a dataclass, two models, a learning-rate schedule."""

from dataclasses import dataclass

import tensorflow as tf
from tensorflow import keras


@dataclass
class Config:
    folder: str = "sensors"
    batch_size: int = 64
    buffer: int = 4096
    classes: int = 5


def read(config: Config, split: str, training: bool) -> tf.data.Dataset:
    spec = {"x": tf.io.FixedLenFeature([64], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)}
    dataset = tf.data.TFRecordDataset(tf.io.gfile.glob(config.folder + f"/{split}-*.tfrecord"))
    if training:
        dataset = dataset.cache()
        dataset = dataset.shuffle(config.buffer, seed=1)
    dataset = dataset.batch(config.batch_size)
    dataset = dataset.map(
        lambda records: (lambda row: (row["x"], row["label"]))(tf.io.parse_example(records, spec)),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    return dataset.prefetch(tf.data.AUTOTUNE)


def build(config: Config, width: int) -> keras.Model:
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(width, activation=tf.nn.relu)])
    model.add(keras.layers.BatchNormalization())
    model.add(keras.layers.Dense(config.classes, activation=tf.nn.softmax))
    rate = keras.optimizers.schedules.ExponentialDecay(0.01, 100, 0.9)
    model.compile(keras.optimizers.Adam(rate), keras.losses.SparseCategoricalCrossentropy(), metrics=["accuracy"])
    return model


config = Config()
for width in (8, 16):
    model = build(config, width)
    model.fit(read(config, "train", True), validation_data=read(config, "val", False), epochs=1)
