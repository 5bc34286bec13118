import tensorflow as tf


class VectorTrainer:
    """Trains an MLP on fixed-size float vectors stored as raw bytes."""

    DIM = 16
    N_CLASSES = 3

    def __init__(self, root="data/vectors", batch_size=50, lr=1e-3):
        self.root = root
        self.batch_size = batch_size
        self.model = self._build()
        self.model.compile(
            optimizer=tf.keras.optimizers.Adam(lr),
            loss="sparse_categorical_crossentropy",
            metrics=["accuracy"],
        )

    def _build(self):
        inp = tf.keras.Input((self.DIM,))
        x = tf.keras.layers.Dense(64, activation="relu")(inp)
        x = tf.keras.layers.Dropout(0.3)(x)
        x = tf.keras.layers.Dense(32, activation="relu")(x)
        out = tf.keras.layers.Dense(self.N_CLASSES, activation="softmax")(x)
        return tf.keras.Model(inp, out)

    def _parse(self, proto):
        spec = {
            "features": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64),
        }
        parsed = tf.io.parse_single_example(proto, spec)
        vec = tf.io.decode_raw(parsed["features"], tf.float32)
        return tf.ensure_shape(vec, [None, self.DIM]), parsed["label"]

    def dataset(self, split):
        ds = tf.data.TFRecordDataset(f"{self.root}/{split}.tfrecord")
        if split == "train":
            ds = ds.shuffle(400)
        ds = ds.batch(self.batch_size)
        ds = ds.map(self._parse, num_parallel_calls=tf.data.AUTOTUNE)
        return ds.prefetch(2)

    def run(self, epochs):
        return self.model.fit(self.dataset("train"), validation_data=self.dataset("val"), epochs=epochs)


if __name__ == "__main__":
    history = VectorTrainer().run(epochs=3)
    print("best val acc", max(history.history["val_accuracy"]))
