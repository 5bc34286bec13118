import argparse

import tensorflow as tf

from callbacks import standard

NAMES = ("bird", "cat", "dog")


def parse(record):
    ex = tf.io.parse_single_example(
        record,
        {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.string)},
    )
    image = tf.ensure_shape(tf.io.decode_png(ex["image"], channels=3), (48, 48, 3))
    label = tf.argmax(tf.equal(tf.constant(NAMES), ex["label"]))
    return image, label


def load(pattern: str, batch: int, shuffle: bool) -> tf.data.Dataset:
    ds = tf.data.Dataset.list_files(pattern, shuffle=False).interleave(tf.data.TFRecordDataset, cycle_length=2)
    ds = ds.map(parse).cache()
    return (ds.shuffle(240) if shuffle else ds).batch(batch)


def main() -> None:
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--batch", type=int, default=24)
    ap.add_argument("--patience", type=int, default=3)
    opts = ap.parse_args()
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Input((48, 48, 3)),
            tf.keras.layers.Rescaling(1.0 / 255),
            tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
            tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
            tf.keras.layers.GlobalMaxPooling2D(),
            tf.keras.layers.Dense(len(NAMES), activation="softmax"),
        ]
    )
    model.compile(optimizer=tf.keras.optimizers.Adam(2e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(
        load("data/animals/train-*.tfrecord", opts.batch, True),
        validation_data=load("data/animals/val-*.tfrecord", opts.batch, False),
        epochs=opts.epochs,
        callbacks=standard(opts.patience),
        verbose=2,
    )


if __name__ == "__main__":
    main()
