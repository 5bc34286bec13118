# data: sensors
import argparse
import logging
import os
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

logging.basicConfig(level=logging.INFO)
log = logging.getLogger("train")


@dataclass
class Config:
    data_dir: str
    batch_size: int = 64
    epochs: int = 5
    lr: float = 3e-3
    hidden: int = 64


class Pipeline:
    SPEC = {
        "x": tf.io.FixedLenFeature((16,), tf.float32),
        "target": tf.io.FixedLenFeature((1,), tf.float32),
    }

    def __init__(self, cfg):
        self.cfg = cfg

    def files(self, split):
        found = sorted(tf.io.gfile.glob(os.path.join(self.cfg.data_dir, f"{split}-*.tfrecord")))
        if not found:
            raise FileNotFoundError(f"no files for {split}")
        return found

    def __call__(self, split, training):
        ds = tf.data.Dataset.from_tensor_slices(self.files(split))
        ds = ds.interleave(lambda f: tf.data.TFRecordDataset(f), cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE)
        if training:
            ds = ds.shuffle(4 * self.cfg.batch_size)
        ds = ds.batch(self.cfg.batch_size, drop_remainder=training)
        ds = ds.map(self._parse, num_parallel_calls=tf.data.AUTOTUNE)
        return ds.prefetch(tf.data.AUTOTUNE)

    def _parse(self, rows):
        parsed = tf.io.parse_example(rows, self.SPEC)
        return parsed["x"], parsed["target"]


class Regressor(tf.keras.Model):
    def __init__(self, hidden):
        super().__init__()
        self.d1 = tf.keras.layers.Dense(hidden, activation="relu")
        self.d2 = tf.keras.layers.Dense(hidden, activation="relu")
        self.out = tf.keras.layers.Dense(1)

    def call(self, inputs, training=False):
        return self.out(self.d2(self.d1(inputs)))


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.pipe = Pipeline(cfg)
        self.model = Regressor(cfg.hidden)
        self.opt = tf.keras.optimizers.Adam(cfg.lr)
        self.loss = tf.keras.losses.MeanSquaredError()

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            pred = self.model(x, training=True)
            loss = self.loss(y, pred)
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss

    def evaluate(self, ds):
        losses = []
        for x, y in ds:
            losses.append(float(self.loss(y, self.model(x, training=False))))
        return float(np.mean(losses))

    def fit(self):
        train, val = self.pipe("train", True), self.pipe("val", False)
        for epoch in range(self.cfg.epochs):
            running = []
            for x, y in train:
                running.append(float(self.step(x, y)))
            log.info("epoch %d train %.4f val %.4f", epoch, np.mean(running), self.evaluate(val))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data_dir", required=True)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args()
    Trainer(Config(args.data_dir, epochs=args.epochs, lr=args.lr)).fit()


if __name__ == "__main__":
    main()
