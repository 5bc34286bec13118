from dataclasses import dataclass, field

import keras
import tensorflow as tf


@dataclass
class OptimConfig:
    name: str = "adam"
    lr: float = 10.0
    clipnorm: float | None = None


@dataclass
class TrainConfig:
    train_path: str = "data/vectors/train.tfrecord"
    val_path: str = "data/vectors/val.tfrecord"
    batch_size: int = 40
    epochs: int = 8
    optim: OptimConfig = field(default_factory=OptimConfig)


class Trainer:
    def __init__(self, cfg: TrainConfig):
        self.cfg = cfg

    @staticmethod
    def _decode(x):
        p = tf.io.parse_single_example(
            x, {"features": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
        )
        return tf.reshape(tf.io.decode_raw(p["features"], tf.float32), [16]), p["label"]

    def _dataset(self, path, train):
        ds = tf.data.TFRecordDataset([path]).map(self._decode, num_parallel_calls=2)
        if train:
            ds = ds.shuffle(400)
        return ds.batch(self.cfg.batch_size)

    def _model(self):
        model = keras.Sequential(
            [
                keras.Input((16,)),
                keras.layers.Dense(64, activation="relu"),
                keras.layers.Dense(64, activation="relu"),
                keras.layers.Dense(32, activation="relu"),
                keras.layers.Dense(3, activation="softmax"),
            ]
        )
        optimizer = keras.optimizers.Adam(learning_rate=self.cfg.optim.lr, clipnorm=self.cfg.optim.clipnorm)
        model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
        return model

    def run(self):
        model = self._model()
        return model.fit(
            self._dataset(self.cfg.train_path, True),
            validation_data=self._dataset(self.cfg.val_path, False),
            epochs=self.cfg.epochs,
            verbose=2,
        )


if __name__ == "__main__":
    Trainer(TrainConfig()).run()
