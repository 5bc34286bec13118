import os
import tempfile

import tensorflow as tf
from tensorflow.keras import layers

CACHE_DIR = tempfile.mkdtemp(prefix="audio_")
NUM_CLASSES = 4
LENGTH = 400


def parse(rec):
    ex = tf.io.parse_single_example(rec, {
        "audio": tf.io.FixedLenFeature([LENGTH], tf.float32),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    spec = tf.abs(tf.signal.stft(ex["audio"], frame_length=64, frame_step=16))
    return tf.math.log(spec + 1e-4)[..., tf.newaxis], ex["label"]


def build_dataset(path, training):
    ds = tf.data.TFRecordDataset(path)
    # stft is slow, keep the spectrograms on disk
    ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.cache(os.path.join(CACHE_DIR, "spectrograms"))
    if training:
        ds = ds.shuffle(300)
    return ds.batch(32).prefetch(tf.data.AUTOTUNE)


train = build_dataset("data/audio/train.tfrecord", training=True)
val = build_dataset("data/audio/val.tfrecord", training=False)

frames, bins = train.element_spec[0].shape[1:3]
inputs = layers.Input((frames, bins, 1))
x = layers.Conv2D(16, 3, activation="relu")(inputs)
x = layers.MaxPooling2D()(x)
x = layers.Conv2D(16, 3, activation="relu")(x)
x = layers.GlobalAveragePooling2D()(x)
x = layers.Dense(NUM_CLASSES, activation="softmax")(x)
model = tf.keras.Model(inputs, x)

model.compile(tf.keras.optimizers.Adam(5e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=3)
