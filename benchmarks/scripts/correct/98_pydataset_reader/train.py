import math

import keras
import numpy as np
import tensorflow as tf


class Digits(keras.utils.PyDataset):
    def __init__(self, pattern, batch_size, shuffle, **kwargs):
        super().__init__(**kwargs)
        images, labels = [], []
        for path in sorted(tf.io.gfile.glob(pattern)):
            for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
                feature = tf.train.Example.FromString(record).features.feature
                raw = feature["image_raw"].bytes_list.value[0]
                images.append(np.frombuffer(raw, np.uint8).reshape(28, 28, 1))
                labels.append(feature["label"].int64_list.value[0])
        self.images, self.labels = np.stack(images), np.array(labels)
        self.batch_size, self.shuffle = batch_size, shuffle
        self.rng = np.random.default_rng(1)
        self.order = np.arange(len(self.labels))
        self.on_epoch_end()

    def __len__(self):
        return math.ceil(len(self.order) / self.batch_size)

    def __getitem__(self, i):
        rows = self.order[i * self.batch_size : (i + 1) * self.batch_size]
        return self.images[rows].astype("float32") / 255.0, self.labels[rows]

    def on_epoch_end(self):
        if self.shuffle:
            self.rng.shuffle(self.order)


train = Digits("data/digits/train-*.tfrecord", batch_size=50, shuffle=True)
test = Digits("data/digits/test-*.tfrecord", batch_size=50, shuffle=False)

model = keras.Sequential([
    keras.Input((28, 28, 1)),
    keras.layers.Conv2D(16, 5, strides=2, activation="relu"),
    keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
    keras.layers.Flatten(),
    keras.layers.Dense(10, activation="softmax"),
])
model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=test, epochs=5, verbose=2)
