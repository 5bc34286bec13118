"""Batches first, then parses the whole batch at once."""

import glob

import tensorflow as tf
from tensorflow.keras import layers, losses, models

BATCH_SIZE = 64
FEATURES = {
    "x": tf.io.FixedLenFeature([64], tf.float32),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def parse_batch(records):
    parsed = tf.io.parse_example(records, FEATURES)
    return parsed["x"], parsed["label"]


def make_dataset(files, training):
    ds = tf.data.TFRecordDataset(files)
    if training:
        ds = ds.shuffle(buffer_size=2000)
    ds = ds.batch(BATCH_SIZE, drop_remainder=training)
    ds = ds.map(parse_batch, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


train_ds = make_dataset(glob.glob("sensors/train-*.tfrecord"), training=True)
val_ds = make_dataset(glob.glob("sensors/val-*.tfrecord"), training=False)
test_ds = make_dataset(glob.glob("sensors/test-*.tfrecord"), training=False)

inputs = layers.Input(shape=(64,))
hidden = layers.Dense(16, activation="relu")(inputs)
outputs = layers.Dense(5)(hidden)
model = models.Model(inputs, outputs)
model.compile(optimizer="adam", loss=losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=2)

labels = [label for _, batch in test_ds for label in batch.numpy()]
predicted = model.predict(test_ds).argmax(axis=1)
print(sum(a == b for a, b in zip(labels, predicted)) / len(labels))
