"""The source is sorted by label. Step 1 writes it again in random order, over four shards; step 2 trains from the
shards with a small buffer, which is then enough."""
import os
import random
import tempfile

import tensorflow as tf

SHARDS = 4


def reshard(source, folder, seed=0):
    records = list(tf.data.TFRecordDataset(source).as_numpy_iterator())
    random.Random(seed).shuffle(records)
    paths = []
    for i in range(SHARDS):
        path = os.path.join(folder, f"train-{i}.tfrecord")
        with tf.io.TFRecordWriter(path) as w:
            for record in records[i::SHARDS]:
                w.write(record)
        paths.append(path)
    return paths


def parse(r):
    f = tf.io.parse_single_example(r, {"image": tf.io.FixedLenFeature([], tf.string),
                                       "label": tf.io.FixedLenFeature([], tf.int64)})
    image = tf.cast(tf.io.decode_jpeg(f["image"], channels=3), tf.float32) / 255.0
    return tf.ensure_shape(image, [32, 32, 3]), f["label"]


with tempfile.TemporaryDirectory() as tmp:
    shards = reshard("data/shapes_sorted/train.tfrecord", tmp)
    train = (tf.data.Dataset.from_tensor_slices(shards).shuffle(SHARDS)
             .interleave(tf.data.TFRecordDataset, cycle_length=SHARDS)
             .shuffle(64).map(parse).batch(32).prefetch(1))
    val = tf.data.TFRecordDataset("data/shapes_sorted/val.tfrecord").map(parse).batch(40)
    model = tf.keras.Sequential([
        tf.keras.Input((32, 32, 3)),
        tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(4, activation="softmax"),
    ])
    model.compile(tf.keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(train, validation_data=val, epochs=5, verbose=2)
