"""A keras.utils.PyDataset that holds the encoded records and decodes a batch at a time."""
import math

import keras
import numpy as np
import tensorflow as tf

SPEC = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


class Records(keras.utils.PyDataset):
    def __init__(self, path, batch_size, shuffle, seed=0, **kwargs):
        super().__init__(**kwargs)
        self.records = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.rng = np.random.default_rng(seed)
        self.order = np.arange(len(self.records))
        if shuffle:
            self.rng.shuffle(self.order)    # the file is sorted by label

    def __len__(self):
        return math.ceil(len(self.records) / self.batch_size)

    def __getitem__(self, i):
        ids = self.order[i * self.batch_size : (i + 1) * self.batch_size]
        parsed = tf.io.parse_example([self.records[j] for j in ids], SPEC)
        images = np.stack([tf.io.decode_jpeg(b).numpy() for b in parsed["image"]])
        return images.astype("float32") / 255.0, parsed["label"].numpy()

    def on_epoch_end(self):
        if self.shuffle:
            self.rng.shuffle(self.order)


train = Records("data/shapes_sorted/train.tfrecord", 32, shuffle=True)
val = Records("data/shapes_sorted/val.tfrecord", 40, shuffle=False)

model = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(4, activation="softmax"),
    ]
)
model.compile(optimizer=keras.optimizers.Adam(3e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=4, verbose=2)
