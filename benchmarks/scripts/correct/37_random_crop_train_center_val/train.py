"""ImageNet-style preprocessing on a small dataset."""
from __future__ import annotations

import dataclasses

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Config:
    train_path: str = "data/sizes/train.tfrecord"
    val_path: str = "data/sizes/val.tfrecord"
    resize_to: int = 44
    crop: int = 40
    batch_size: int = 20
    epochs: int = 6
    learning_rate: float = 3e-3
    classes: int = 3


class Preprocess:
    MEAN = (0.485, 0.456, 0.406)
    STD = (0.229, 0.224, 0.225)

    def __init__(self, cfg: Config, training: bool):
        self.cfg = cfg
        self.training = training

    def __call__(self, record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        parsed = tf.io.parse_single_example(record, {
            "image": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64),
        })
        image = tf.io.decode_jpeg(parsed["image"], channels=3)
        size, crop = self.cfg.resize_to, self.cfg.crop
        image = tf.image.resize(image, (size, size))
        if self.training:
            image = tf.image.random_crop(image, (crop, crop, 3))
            image = tf.image.random_flip_left_right(image)
        else:
            image = tf.image.resize_with_crop_or_pad(image, crop, crop)
        image = (image / 255.0 - tf.constant(self.MEAN)) / tf.constant(self.STD)
        return image, parsed["label"]


def input_fn(cfg: Config, training: bool) -> tf.data.Dataset:
    ds = tf.data.TFRecordDataset(cfg.train_path if training else cfg.val_path)
    if training:
        # shuffle the serialized records: they are smaller than decoded images
        ds = ds.shuffle(1024)
    ds = ds.map(Preprocess(cfg, training), num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(cfg.batch_size).prefetch(tf.data.AUTOTUNE)


def build(cfg: Config) -> tf.keras.Model:
    model = tf.keras.Sequential([
        tf.keras.Input((cfg.crop, cfg.crop, 3)),
        tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
        tf.keras.layers.GlobalAveragePooling2D(),
        tf.keras.layers.Dense(cfg.classes),
    ])
    model.compile(
        optimizer=tf.keras.optimizers.Adam(cfg.learning_rate),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def main(cfg: Config) -> None:
    build(cfg).fit(input_fn(cfg, True), validation_data=input_fn(cfg, False), epochs=cfg.epochs, verbose=2)


if __name__ == "__main__":
    main(Config())
