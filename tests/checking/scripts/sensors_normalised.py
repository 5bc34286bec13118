"""A Normalization layer, adapted to the train split before the model is built."""

import tensorflow as tf
from tensorflow import keras

SPEC = {
    "x": tf.io.FixedLenFeature([64], tf.float32),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def to_pair(records):
    parsed = tf.io.parse_example(records, SPEC)
    return parsed["x"], parsed["label"]


def read(path):
    return tf.data.TFRecordDataset(path)


train = (
    read("sensors/train-00000-of-00001.tfrecord")
    .shuffle(2000, seed=1)
    .batch(50)
    .map(to_pair, num_parallel_calls=tf.data.AUTOTUNE)
    .prefetch(tf.data.AUTOTUNE)
)
val = (
    read("sensors/val-00000-of-00001.tfrecord")
    .batch(50)
    .map(to_pair, num_parallel_calls=tf.data.AUTOTUNE)
    .prefetch(tf.data.AUTOTUNE)
)

normalise = keras.layers.Normalization()
normalise.adapt(train.map(lambda x, y: x))

model = keras.Sequential([keras.Input((64,)), normalise, keras.layers.Dense(16, "relu"), keras.layers.Dense(5)])
model.compile(
    optimizer=keras.optimizers.SGD(learning_rate=0.01),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)
model.fit(train, validation_data=val, epochs=2)
model.evaluate(val)
