import logging

import keras
import tensorflow as tf
from keras import layers

logging.basicConfig(level=logging.INFO)
log = logging.getLogger("fraud")


class FraudData:
    spec = {
        "x": tf.io.FixedLenFeature([10], tf.float32),
        "amount": tf.io.FixedLenFeature([1], tf.float32),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }

    def __init__(self, folder, batch_size=50):
        self.folder = folder
        self.batch_size = batch_size

    def _row(self, r):
        d = tf.io.parse_single_example(r, self.spec)
        amount = tf.math.log1p(d["amount"]) - 4.0   # log amounts centre near 4
        return tf.concat([d["x"], amount], axis=-1), d["label"]

    def get(self, split):
        ds = tf.data.TFRecordDataset(f"{self.folder}/{split}.tfrecord")
        ds = ds.map(self._row, num_parallel_calls=tf.data.AUTOTUNE)
        if split == "train":
            # records come in sorted by label
            ds.shuffle(buffer_size=600, reshuffle_each_iteration=True)
        ds = ds.batch(self.batch_size)
        return ds.prefetch(tf.data.AUTOTUNE)


def build():
    m = keras.Sequential([
        keras.Input((11,)),
        layers.Dense(32, activation="relu"),
        layers.Dense(16, activation="relu"),
        layers.Dense(1, activation="sigmoid"),
    ])
    m.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss="binary_crossentropy",
        metrics=[keras.metrics.AUC(curve="PR", name="pr_auc"), keras.metrics.Recall(name="recall")],
    )
    return m


if __name__ == "__main__":
    data = FraudData("data/fraud")
    model = build()
    model.fit(data.get("train"), validation_data=data.get("val"), epochs=4, class_weight={0: 1.0, 1: 19.0}, verbose=2)
    log.info("done")
