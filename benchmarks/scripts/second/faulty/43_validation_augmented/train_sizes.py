import dataclasses

import tensorflow as tf
from tensorflow import keras


@dataclasses.dataclass
class Cfg:
    train: str = "data/sizes/train.tfrecord"
    val: str = "data/sizes/val.tfrecord"
    crop: int = 40
    batch: int = 20
    epochs: int = 3
    lr: float = 2e-3
    shuffle: int = 200


cfg = Cfg()


def decode(rec):
    ex = tf.io.parse_single_example(rec, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    img = tf.io.decode_jpeg(ex["image"], channels=3)
    return tf.image.resize(img, [48, 48]) / 255.0, ex["label"]


def random_view(img, label):
    img = tf.image.random_crop(img, [cfg.crop, cfg.crop, 3])
    img = tf.image.random_flip_left_right(img)
    img = tf.image.random_hue(img, 0.1)
    img = tf.image.random_contrast(img, 0.5, 1.5)
    return tf.clip_by_value(img, 0.0, 1.0), label


def center_view(img, label):
    return tf.image.resize_with_crop_or_pad(img, cfg.crop, cfg.crop), label


def dataset(path, training):
    ds = tf.data.TFRecordDataset(path).map(decode, num_parallel_calls=tf.data.AUTOTUNE).cache()
    if training:
        ds = ds.shuffle(cfg.shuffle)
    ds = ds.map(random_view, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(cfg.batch).prefetch(tf.data.AUTOTUNE)


model = keras.Sequential([
    keras.Input((cfg.crop, cfg.crop, 3)),
    keras.layers.Conv2D(16, 3, activation="relu"),
    keras.layers.MaxPooling2D(),
    keras.layers.Conv2D(32, 3, activation="relu"),
    keras.layers.MaxPooling2D(),
    keras.layers.Flatten(),
    keras.layers.Dense(3, activation="softmax"),
])
model.compile(keras.optimizers.Adam(cfg.lr), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(dataset(cfg.train, True), validation_data=dataset(cfg.val, False), epochs=cfg.epochs)
