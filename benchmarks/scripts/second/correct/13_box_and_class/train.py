"""Localise one object per picture: a class head and a box head share a trunk."""
import argparse

import tensorflow as tf
from tensorflow import keras

KEYS = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "bbox": tf.io.FixedLenFeature([4], tf.float32),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def decode(record):
    f = tf.io.parse_single_example(record, KEYS)
    image = tf.cast(tf.io.decode_jpeg(f["image"], channels=3), tf.float32) / 255.0
    return tf.ensure_shape(image, [64, 64, 3]), {"cls": f["label"], "box": f["bbox"]}


def hflip(image, target):
    """Mirror the picture and its box (ymin, xmin, ymax, xmax)."""
    if tf.random.uniform([]) > 0.5:
        ymin, xmin, ymax, xmax = tf.unstack(target["box"])
        image = tf.image.flip_left_right(image)
        target = {"cls": target["cls"], "box": tf.stack([ymin, 1.0 - xmax, ymax, 1.0 - xmin])}
    return image, target


class MeanIoUBox(keras.metrics.Mean):
    def update_state(self, y_true, y_pred, sample_weight=None):
        tl, br = tf.maximum(y_true[:, :2], y_pred[:, :2]), tf.minimum(y_true[:, 2:], y_pred[:, 2:])
        inter = tf.reduce_prod(tf.maximum(br - tl, 0.0), axis=-1)
        area = lambda b: tf.reduce_prod(tf.maximum(b[:, 2:] - b[:, :2], 0.0), axis=-1)
        return super().update_state(inter / (area(y_true) + area(y_pred) - inter + 1e-7), sample_weight)


def main(args):
    train = tf.data.TFRecordDataset(f"{args.data}/train.tfrecord").map(decode).cache()
    train = train.shuffle(200).map(hflip).batch(args.batch_size).prefetch(tf.data.AUTOTUNE)
    val = tf.data.TFRecordDataset(f"{args.data}/val.tfrecord").map(decode).batch(args.batch_size)

    inputs = keras.Input((64, 64, 3))
    x = inputs
    for filters in (16, 32, 32):
        x = keras.layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(x)
    x = keras.layers.Flatten()(x)
    x = keras.layers.Dense(64, activation="relu")(x)
    outputs = {
        "cls": keras.layers.Dense(3, name="cls")(x),
        "box": keras.layers.Dense(4, activation="sigmoid", name="box")(x),
    }
    model = keras.Model(inputs, outputs)
    model.compile(
        optimizer=keras.optimizers.Adam(args.lr),
        loss={"cls": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "box": keras.losses.Huber(0.1)},
        loss_weights={"cls": 1.0, "box": 20.0},
        metrics={"cls": ["accuracy"], "box": [MeanIoUBox(name="iou")]},
    )
    model.fit(train, validation_data=val, epochs=args.epochs, verbose=2)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--data", default="data/single_box")
    p.add_argument("--batch_size", type=int, default=20)
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--lr", type=float, default=2e-3)
    main(p.parse_args())
