from dataclasses import dataclass

import numpy as np
import tensorflow as tf


@dataclass
class Config:
    data: str = "data/houses"
    batch: int = 20
    epochs: int = 8
    lr: float = 5e-3
    weight_decay: float = 1e-4


cfg = Config()


def example(proto):
    f = tf.io.parse_single_example(proto, {
        "x": tf.io.FixedLenFeature((8,), tf.float32), "price": tf.io.FixedLenFeature((), tf.float32)})
    return f["x"], tf.math.log(f["price"])


def dataset(split):
    return tf.data.TFRecordDataset(f"{cfg.data}/{split}.tfrecord").map(example).cache()


train, val = dataset("train"), dataset("val")
log_mean = float(np.mean([y for _, y in train.as_numpy_iterator()]))

model = tf.keras.Sequential([
    tf.keras.Input((8,)),
    tf.keras.layers.Dense(32, activation="selu", kernel_initializer="lecun_normal"),
    tf.keras.layers.Dense(1, bias_initializer=tf.keras.initializers.Constant(log_mean)),
])
model.compile(tf.keras.optimizers.AdamW(cfg.lr, weight_decay=cfg.weight_decay), loss=tf.keras.losses.Huber(delta=0.2))
model.fit(train.shuffle(500).batch(cfg.batch).prefetch(1), validation_data=val.batch(100), epochs=cfg.epochs, verbose=2)

y_log = np.array([y for _, y in val.as_numpy_iterator()])
price_true, price_pred = np.exp(y_log), np.exp(model.predict(val.batch(100), verbose=0)[:, 0])
print("median relative error: %.3f" % np.median(abs(price_pred / price_true - 1)))
