"""Written after the rules: loads a model and makes a confusion matrix."""

import numpy as np
import tensorflow as tf

SPEC = {"image_raw": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


def decode(record):
    parsed = tf.io.parse_single_example(record, SPEC)
    image = tf.cast(tf.io.decode_raw(parsed["image_raw"], tf.uint8), tf.float32) / 255.0
    return tf.reshape(image, (28, 28)), parsed["label"]


test = tf.data.TFRecordDataset("digits/val-00000-of-00001.tfrecord.gz", compression_type="GZIP")
test = test.map(decode, num_parallel_calls=tf.data.AUTOTUNE).batch(100).prefetch(tf.data.AUTOTUNE)
model = tf.keras.models.load_model("model.keras")
labels = np.concatenate([label for _, label in test])
predicted = model.predict(test).argmax(axis=-1)
print(tf.math.confusion_matrix(labels, predicted))
