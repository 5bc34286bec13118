import os
import tensorflow as tf
from tensorflow.keras import layers
from tensorflow.keras.callbacks import EarlyStopping, ModelCheckpoint


class AudioClassifier:
    def __init__(self, data_dir, out_dir="checkpoints"):
        self.data_dir = data_dir
        self.out_dir = out_dir
        os.makedirs(out_dir, exist_ok=True)
        self.model = self.make_model()

    def parse(self, rec):
        ex = tf.io.parse_single_example(rec, {
            "audio": tf.io.FixedLenFeature([400], tf.float32),
            "label": tf.io.FixedLenFeature([], tf.int64),
        })
        return ex["audio"][:, tf.newaxis], ex["label"]

    def load(self, split):
        ds = tf.data.TFRecordDataset(os.path.join(self.data_dir, split + ".tfrecord"))
        ds = ds.map(self.parse, num_parallel_calls=tf.data.AUTOTUNE).cache()
        if split == "train":
            ds = ds.shuffle(300)
        return ds.batch(32).prefetch(tf.data.AUTOTUNE)

    def make_model(self):
        model = tf.keras.Sequential([
            layers.Input((400, 1)),
            layers.Conv1D(16, 16, strides=4, activation="relu"),
            layers.Conv1D(32, 8, strides=2, activation="relu"),
            layers.GlobalMaxPooling1D(),
            layers.Dense(4, activation="softmax"),
        ])
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        return model

    def fit(self, epochs):
        path = os.path.join(self.out_dir, "best_model.h5")
        callbacks = [
            ModelCheckpoint(path, monitor="val_loss", save_best_only=True, save_weights_only=True),
            EarlyStopping(monitor="val_loss", patience=4),
        ]
        self.model.fit(self.load("train"), validation_data=self.load("val"), epochs=epochs, callbacks=callbacks)
        self.model.load_weights(path)
        return self.model.evaluate(self.load("val"), return_dict=True)


if __name__ == "__main__":
    print(AudioClassifier("data/audio").fit(3))
