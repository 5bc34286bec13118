from dataclasses import dataclass, field
from typing import Tuple

import keras
import tensorflow as tf


@dataclass
class Config:
    train_file: str = "data/shapes_gzip/train.tfrecord.gz"
    val_file: str = "data/shapes_gzip/val.tfrecord.gz"
    image_size: Tuple[int, int] = (32, 32)
    batch_size: int = 32
    num_classes: int = 4
    epochs: int = 3
    learning_rate: float = 1e-3
    filters: list = field(default_factory=lambda: [16, 32])


def parse_fn(cfg: Config):
    description = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }

    def _parse(x):
        e = tf.io.parse_single_example(x, description)
        image = tf.io.decode_jpeg(e["image"], channels=3)
        image = tf.image.convert_image_dtype(image, tf.float32)
        return tf.ensure_shape(image, (*cfg.image_size, 3)), e["label"]

    return _parse


def make_ds(cfg: Config, path: str, train: bool) -> tf.data.Dataset:
    ds = tf.data.TFRecordDataset(path)
    ds = ds.map(parse_fn(cfg), num_parallel_calls=tf.data.AUTOTUNE).cache()
    if train:
        ds = ds.shuffle(320)
    return ds.batch(cfg.batch_size).prefetch(tf.data.AUTOTUNE)


def build(cfg: Config) -> keras.Model:
    model = keras.Sequential([keras.Input((*cfg.image_size, 3))])
    for f in cfg.filters:
        model.add(keras.layers.Conv2D(f, 3, padding="same", activation="relu"))
        model.add(keras.layers.MaxPooling2D())
    model.add(keras.layers.Flatten())
    model.add(keras.layers.Dense(cfg.num_classes))
    model.compile(
        keras.optimizers.Adam(cfg.learning_rate),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


if __name__ == "__main__":
    cfg = Config()
    model = build(cfg)
    model.fit(make_ds(cfg, cfg.train_file, True), validation_data=make_ds(cfg, cfg.val_file, False), epochs=cfg.epochs)
