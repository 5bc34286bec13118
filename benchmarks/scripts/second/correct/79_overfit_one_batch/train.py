"""Sanity check before a long run: a healthy model must be able to memorise one batch.

No validation and no shuffling here, on purpose: the same 20 pictures again and again.
"""
import tensorflow as tf


def parse(r):
    e = tf.io.parse_single_example(r, {"image": tf.io.FixedLenFeature([], tf.string),
                                       "label": tf.io.FixedLenFeature([], tf.int64)})
    return tf.ensure_shape(tf.cast(tf.io.decode_jpeg(e["image"], channels=3), tf.float32) / 255.0, [32, 32, 3]), e["label"]


images, labels = next(iter(tf.data.TFRecordDataset("data/tiny/train.tfrecord").map(parse).batch(20)))
labels = tf.cast(labels, tf.float32)[:, None]

model = tf.keras.Sequential([
    tf.keras.Input((32, 32, 3)),
    tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(32, activation="relu"),
    tf.keras.layers.Dense(1),
])
model.compile(tf.keras.optimizers.Adam(2e-3), tf.keras.losses.BinaryCrossentropy(from_logits=True),
              metrics=[tf.keras.metrics.BinaryAccuracy(threshold=0.0, name="acc")])

for step in range(61):
    logs = model.train_on_batch(images, labels, return_dict=True)
    model.reset_metrics()
    if step % 20 == 0:
        print(step, {k: round(float(v), 4) for k, v in logs.items()})

final = model.evaluate(images, labels, verbose=0, return_dict=True)
assert final["acc"] == 1.0, "cannot memorise 20 pictures: look for a bug"
print("memorised", final)
