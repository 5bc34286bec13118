import math

import tensorflow as tf
from tensorflow import keras

BATCH, EPOCHS, RECORDS = 30, 5, 300


class OneCycle(keras.callbacks.Callback):
    """Cosine up for a third of the steps, cosine down for the rest."""

    def __init__(self, peak, total_steps, start_div=25.0, end_div=1e3, up=0.3):
        super().__init__()
        self.peak, self.total, self.up = peak, total_steps, int(up * total_steps)
        self.start, self.end, self.step = peak / start_div, peak / end_div, 0

    @staticmethod
    def _cos(a, b, t):
        return b + (a - b) * (1 + math.cos(math.pi * t)) / 2

    def on_train_batch_begin(self, batch, logs=None):
        if self.step < self.up:
            lr = self._cos(self.start, self.peak, self.step / self.up)
        else:
            lr = self._cos(self.peak, self.end, (self.step - self.up) / (self.total - self.up))
        self.model.optimizer.learning_rate = lr
        self.step += 1


def parse(r):
    f = tf.io.parse_single_example(
        r, {"audio": tf.io.FixedLenFeature([400], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)})
    return f["audio"][:, None], f["label"]


def jitter(wave, label):
    return wave + tf.random.normal(tf.shape(wave), stddev=0.03), label


train = tf.data.TFRecordDataset("data/audio/train.tfrecord").map(parse).cache().shuffle(RECORDS).map(jitter)
train = train.batch(BATCH).prefetch(1)
val = tf.data.TFRecordDataset("data/audio/val.tfrecord").map(parse).batch(40)

model = keras.Sequential([
    keras.Input((400, 1)),
    keras.layers.Conv1D(16, 40, strides=10, activation="relu"),
    keras.layers.Conv1D(32, 5, strides=2, activation="relu"),
    keras.layers.GlobalAveragePooling1D(),
    keras.layers.Dense(4, activation="softmax"),
])
model.compile(keras.optimizers.Adam(1e-3, beta_1=0.95), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=EPOCHS, verbose=2,
          callbacks=[OneCycle(peak=1e-2, total_steps=EPOCHS * math.ceil(RECORDS / BATCH))])
