"""Report for a trained model on the test files: accuracy, per-class recall, confusion matrix."""
import argparse
from pathlib import Path

import numpy as np
import tensorflow as tf

NAMES = ["circle", "square", "cross", "stripes"]


def parse(record):
    f = tf.io.parse_single_example(record, {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.io.decode_jpeg(f["image/encoded"], channels=3)
    return tf.ensure_shape(tf.cast(image, tf.float32) / 255.0, [32, 32, 3]), f["image/class/label"]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--model", default=str(Path(__file__).with_name("shapes.keras")))
    ap.add_argument("--files", default="data/shapes/test-*.tfrecord")
    args = ap.parse_args()

    model = tf.keras.models.load_model(args.model)
    ds = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(args.files))).map(parse).batch(16)
    print(model.evaluate(ds, verbose=0, return_dict=True))

    truth, guess = [], []
    for images, labels in ds:
        truth.append(labels.numpy())
        guess.append(np.argmax(model(images, training=False), axis=-1))
    matrix = tf.math.confusion_matrix(np.concatenate(truth), np.concatenate(guess), num_classes=len(NAMES)).numpy()
    print(matrix)
    for i, name in enumerate(NAMES):
        print(f"{name:8s} recall {matrix[i, i] / max(matrix[i].sum(), 1):.2f}")


if __name__ == "__main__":
    main()
