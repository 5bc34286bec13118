"""
Title: Text classification with a Transformer block
Description: A tiny encoder on integer tokens.
"""
import keras
import tensorflow as tf
from keras import layers

MAX_LEN, VOCAB, DIM = 40, 2000, 16


def parse(record):
    row = tf.io.parse_single_example(
        record,
        {"tokens": tf.io.VarLenFeature(tf.int64), "label": tf.io.FixedLenFeature([], tf.int64)},
    )
    return tf.sparse.to_dense(row["tokens"]), row["label"]


def load(pattern, shuffle):
    ds = tf.data.TFRecordDataset(tf.io.gfile.glob(pattern)).map(parse)
    if shuffle:
        ds = ds.shuffle(400)
    return ds.padded_batch(20, ([MAX_LEN], []))


"""
## Layers
"""


class TokenAndPosition(layers.Layer):
    def __init__(self):
        super().__init__()
        self.token_emb = layers.Embedding(VOCAB, DIM)
        self.pos_emb = layers.Embedding(MAX_LEN, DIM)

    def call(self, ids):
        return self.token_emb(ids) + self.pos_emb(tf.range(MAX_LEN))


class Encoder(layers.Layer):
    def __init__(self):
        super().__init__()
        self.att = layers.MultiHeadAttention(num_heads=2, key_dim=DIM)
        self.ffn = keras.Sequential([layers.Dense(32, activation="relu"), layers.Dense(DIM)])
        self.norm1, self.norm2 = layers.LayerNormalization(), layers.LayerNormalization()

    def call(self, x, ids):
        mask = tf.equal(ids, 0)[:, None, :]
        x = self.norm1(x + self.att(x, x, attention_mask=mask))
        return self.norm2(x + self.ffn(x))


class PoolTokens(layers.Layer):
    def call(self, x, ids):
        keep = tf.cast(ids > 0, x.dtype)[..., None]
        return tf.reduce_sum(x * keep, 1) / tf.reduce_sum(keep, 1)


ids = keras.Input((MAX_LEN,), dtype="int32")
x = Encoder()(TokenAndPosition()(ids), ids)
x = PoolTokens()(x, ids)
outputs = layers.Dense(4, activation="softmax")(x)
model = keras.Model(ids, outputs)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(load("data/tokens/train-*", True), validation_data=load("data/tokens/val-*", False), epochs=3, verbose=2)
