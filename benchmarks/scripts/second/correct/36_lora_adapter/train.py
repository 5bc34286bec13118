"""Pretrain a token classifier on two classes, then adapt it to all four; the dense layer changes by a low-rank update."""
import keras
import tensorflow as tf
from keras import layers, ops

keras.utils.set_random_seed(0)


class LoRADense(layers.Layer):
    def __init__(self, dense, rank=4, alpha=8.0, **kw):
        super().__init__(**kw)
        self.dense, self.rank, self.scale = dense, rank, alpha / rank
        self.dense.trainable = False

    def build(self, shape):
        self.a = self.add_weight(shape=(shape[-1], self.rank), initializer="he_uniform", name="lora_a")
        self.b = self.add_weight(shape=(self.rank, self.dense.units), initializer="zeros", name="lora_b")

    def call(self, x):
        z = ops.matmul(x, self.dense.kernel) + self.dense.bias + ops.matmul(ops.matmul(x, self.a), self.b) * self.scale
        return self.dense.activation(z)


def data(pattern, classes, train):
    def parse(r):
        e = tf.io.parse_single_example(r, {"tokens": tf.io.RaggedFeature(tf.int64),
                                           "label": tf.io.FixedLenFeature([], tf.int64)})
        return e["tokens"], e["label"]
    ds = tf.data.TFRecordDataset(tf.io.gfile.glob(pattern)).map(parse).filter(lambda _, y: y < classes)
    if train:
        ds = ds.shuffle(400)
    return ds.padded_batch(25, padded_shapes=([40], [])).prefetch(1)


embedding = layers.Embedding(2000, 32, mask_zero=True)
pool = layers.GlobalAveragePooling1D()
hidden = layers.Dense(64, activation="relu")

tokens = keras.Input((40,), dtype="int64")
base = keras.Model(tokens, layers.Dense(2)(hidden(pool(embedding(tokens)))))
ce = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
base.compile(keras.optimizers.Adam(5e-3), ce, metrics=["accuracy"])
base.fit(data("data/tokens/train-*", 2, True), epochs=4, verbose=2)

embedding.trainable = True            # new classes bring new words
tokens = keras.Input((40,), dtype="int64")
adapted = keras.Model(tokens, layers.Dense(4)(LoRADense(hidden)(pool(embedding(tokens)))))
adapted.compile(keras.optimizers.Adam(1e-2), ce, metrics=["accuracy"])
print("trainable:", [w.path for w in adapted.trainable_weights])
adapted.fit(data("data/tokens/train-*", 4, True), validation_data=data("data/tokens/val-*", 4, False), epochs=5,
            verbose=2)
