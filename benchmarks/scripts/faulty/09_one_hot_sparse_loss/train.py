from dataclasses import dataclass

import tensorflow as tf


@dataclass
class Config:
    train_glob: str = "data/digits/train-*.tfrecord"
    test_glob: str = "data/digits/test-*.tfrecord"
    image_side: int = 28
    num_classes: int = 10
    batch_size: int = 50
    epochs: int = 4
    learning_rate: float = 2e-3


cfg = Config()


def parse_digit(serialized):
    feats = {
        "image_raw": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }
    parsed = tf.io.parse_single_example(serialized, feats)
    image = tf.io.decode_raw(parsed["image_raw"], tf.uint8)
    image = tf.reshape(image, [cfg.image_side, cfg.image_side, 1])
    image = tf.cast(image, tf.float32) / 255.0
    label = tf.one_hot(parsed["label"], cfg.num_classes)
    return image, label


def input_fn(pattern, train):
    ds = tf.data.TFRecordDataset(tf.io.gfile.glob(pattern))
    ds = ds.map(parse_digit, num_parallel_calls=tf.data.AUTOTUNE)
    if train:
        ds = ds.shuffle(500)
    return ds.batch(cfg.batch_size).prefetch(tf.data.AUTOTUNE)


def build_model():
    return tf.keras.Sequential([
        tf.keras.layers.InputLayer(shape=(cfg.image_side, cfg.image_side, 1)),
        tf.keras.layers.Conv2D(16, 5, activation="relu"),
        tf.keras.layers.MaxPool2D(),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dense(cfg.num_classes, activation="softmax"),
    ])


def main():
    model = build_model()
    model.compile(
        optimizer=tf.keras.optimizers.Adam(cfg.learning_rate),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    model.fit(input_fn(cfg.train_glob, True), validation_data=input_fn(cfg.test_glob, False), epochs=cfg.epochs)


if __name__ == "__main__":
    main()
