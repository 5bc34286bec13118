import random

import numpy as np
import tensorflow as tf


def read_protos(path):
    return [tf.train.Example.FromString(r) for r in tf.data.TFRecordDataset(path).as_numpy_iterator()]


def make_generator(protos, train):
    def gen():
        items = list(protos)
        if train:
            random.shuffle(items)          # a new order every epoch
        for p in items:
            wave = np.array(p.features.feature["audio"].float_list.value, dtype=np.float32)
            if train:
                wave = np.roll(wave, random.randrange(400)) * random.uniform(0.8, 1.1)
            yield wave[:, None], p.features.feature["label"].int64_list.value[0]

    return gen


signature = (tf.TensorSpec((400, 1), tf.float32), tf.TensorSpec((), tf.int64))
train_items, val_items = read_protos("data/audio/train.tfrecord"), read_protos("data/audio/val.tfrecord")
train_ds = tf.data.Dataset.from_generator(make_generator(train_items, True), output_signature=signature)
val_ds = tf.data.Dataset.from_generator(make_generator(val_items, False), output_signature=signature)

train_ds = train_ds.apply(tf.data.experimental.assert_cardinality(len(train_items))).batch(30).prefetch(2)
val_ds = val_ds.apply(tf.data.experimental.assert_cardinality(len(val_items))).batch(40)

model = tf.keras.Sequential(
    [
        tf.keras.Input((400, 1)),
        tf.keras.layers.Conv1D(16, 32, strides=8, activation="relu"),
        tf.keras.layers.Conv1D(32, 8, strides=2, activation="relu"),
        tf.keras.layers.GlobalMaxPooling1D(),
        tf.keras.layers.Dense(4, activation="softmax"),
    ]
)
model.compile(tf.keras.optimizers.Adam(5e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=5, verbose=2)
