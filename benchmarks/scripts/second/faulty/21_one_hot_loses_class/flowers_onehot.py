from dataclasses import dataclass

import keras
import tensorflow as tf
from keras import layers


@dataclass(frozen=True)
class Hparams:
    image_size: int = 32
    classes: int = 5
    batch: int = 25
    lr: float = 2e-3
    label_smoothing: float = 0.05
    epochs: int = 3


HP = Hparams()


def parse(record):
    feats = tf.io.parse_single_example(record, dict(
        image=tf.io.FixedLenFeature([], tf.string),
        label=tf.io.FixedLenFeature([], tf.int64),
    ))
    image = tf.io.decode_jpeg(feats["image"], channels=3)
    image = tf.image.resize(image, [HP.image_size, HP.image_size], antialias=True) / 255.0
    target = tf.one_hot(feats["label"], HP.classes)
    return image, target


def dataset(pattern, training=False):
    ds = tf.data.Dataset.list_files(pattern, shuffle=training)
    ds = ds.interleave(tf.data.TFRecordDataset, cycle_length=2)
    ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.cache()
    if training:
        ds = ds.shuffle(256)
    return ds.batch(HP.batch).prefetch(tf.data.AUTOTUNE)


def build_model():
    inputs = keras.Input((HP.image_size, HP.image_size, 3))
    x = inputs
    for width in (16, 32):
        x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Flatten()(x)
    logits = layers.Dense(HP.classes)(x)
    return keras.Model(inputs, logits)


model = build_model()
model.compile(
    optimizer=keras.optimizers.Adam(HP.lr),
    loss=keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=HP.label_smoothing),
    metrics=["categorical_accuracy"],
)
model.fit(dataset("data/flowers/train-*", True), validation_data=dataset("data/flowers/val-*"), epochs=HP.epochs)
