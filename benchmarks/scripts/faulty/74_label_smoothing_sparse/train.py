import tensorflow as tf


class Experiment:
    data_dir = "data/audio"
    num_classes = 4
    smoothing = 0.1

    def parse(self, rec):
        ex = tf.io.parse_single_example(rec, {
            "audio": tf.io.FixedLenFeature([400], tf.float32),
            "label": tf.io.FixedLenFeature([], tf.int64),
        })
        return ex["audio"][:, None], ex["label"]

    def data(self, name, shuffle=False):
        ds = tf.data.TFRecordDataset(f"{self.data_dir}/{name}.tfrecord").map(self.parse)
        ds = ds.shuffle(300) if shuffle else ds
        return ds.batch(30)

    def model(self):
        m = tf.keras.Sequential([
            tf.keras.Input((400, 1)),
            tf.keras.layers.Conv1D(16, 16, strides=4, activation="relu"),
            tf.keras.layers.GlobalMaxPooling1D(),
            tf.keras.layers.Dense(self.num_classes),
        ])
        m.compile(
            optimizer=tf.keras.optimizers.Adam(3e-3),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, label_smoothing=self.smoothing),
            metrics=["accuracy"],
        )
        return m

    def run(self, epochs=6):
        self.model().fit(self.data("train", shuffle=True), validation_data=self.data("val"), epochs=epochs, verbose=2)


Experiment().run()
