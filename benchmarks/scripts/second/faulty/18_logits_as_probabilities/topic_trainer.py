import glob
import tensorflow as tf
from tensorflow.keras import layers


class TopicTrainer:
    def __init__(self, data_dir, vocab=2000, dim=24, batch=32):
        self.data_dir = data_dir
        self.vocab = vocab
        self.dim = dim
        self.batch = batch

    # ---- data -------------------------------------------------------------
    @staticmethod
    def _parse(rec):
        out = tf.io.parse_single_example(rec, {
            "tokens": tf.io.VarLenFeature(tf.int64),
            "label": tf.io.FixedLenFeature([], tf.int64),
        })
        return tf.sparse.to_dense(out["tokens"]), out["label"]

    def data(self, split):
        files = sorted(glob.glob(f"{self.data_dir}/{split}-*.tfrecord"))
        ds = tf.data.TFRecordDataset(files).map(self._parse, num_parallel_calls=tf.data.AUTOTUNE)
        if split == "train":
            ds = ds.shuffle(400)
        return ds.padded_batch(self.batch, ([40], [])).prefetch(tf.data.AUTOTUNE)

    # ---- model ------------------------------------------------------------
    def build(self):
        ids = layers.Input((40,), dtype="int32")
        x = layers.Embedding(self.vocab, self.dim, mask_zero=True)(ids)
        x = layers.GlobalAveragePooling1D()(x)
        x = layers.Dense(32, activation="relu")(x)
        scores = layers.Dense(4)(x)
        model = tf.keras.Model(ids, scores)
        model.compile(
            optimizer=tf.keras.optimizers.Adam(5e-3),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(),
            metrics=["accuracy"],
        )
        return model

    def train(self, epochs=3):
        model = self.build()
        model.fit(self.data("train"), validation_data=self.data("val"), epochs=epochs)
        return model


if __name__ == "__main__":
    TopicTrainer("data/tokens").train()
