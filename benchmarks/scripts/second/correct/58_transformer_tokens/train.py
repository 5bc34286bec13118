import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

MAXLEN, VOCAB, DIM = 40, 2000, 32


class TokenAndPosition(layers.Layer):
    def __init__(self):
        super().__init__()
        self.tok = layers.Embedding(VOCAB, DIM, mask_zero=True)
        self.pos = layers.Embedding(MAXLEN, DIM)

    def call(self, ids):
        return self.tok(ids) + self.pos(tf.range(tf.shape(ids)[-1]))

    def compute_mask(self, ids, mask=None):
        return self.tok.compute_mask(ids)


class Block(layers.Layer):
    def __init__(self, heads=2, ff=64, rate=0.1):
        super().__init__()
        self.att = layers.MultiHeadAttention(heads, DIM // heads)
        self.ffn = keras.Sequential([layers.Dense(ff, activation="gelu"), layers.Dense(DIM)])
        self.n1, self.n2 = layers.LayerNormalization(epsilon=1e-6), layers.LayerNormalization(epsilon=1e-6)
        self.drop = layers.Dropout(rate)
        self.supports_masking = True

    def call(self, x, mask=None, training=False):
        keep = mask[:, tf.newaxis, :] if mask is not None else None
        y = self.n1(x)
        x = x + self.drop(self.att(y, y, attention_mask=keep, training=training), training=training)
        return x + self.drop(self.ffn(self.n2(x)), training=training)


def dataset(pattern, training):
    def parse(r):
        e = tf.io.parse_single_example(r, {"tokens": tf.io.VarLenFeature(tf.int64),
                                           "label": tf.io.FixedLenFeature([], tf.int64)})
        ids = tf.sparse.to_dense(e["tokens"])[:MAXLEN]
        return tf.pad(ids, [[0, MAXLEN - tf.size(ids)]]), e["label"]
    ds = tf.data.TFRecordDataset(tf.io.gfile.glob(pattern)).map(parse)
    if training:
        ds = ds.shuffle(400)
    return ds.batch(25).map(lambda x, y: (tf.ensure_shape(x, [None, MAXLEN]), y)).prefetch(1)


ids = keras.Input((MAXLEN,), dtype="int64")
h = TokenAndPosition()(ids)
h = Block()(h)
h = layers.GlobalAveragePooling1D()(h)
h = layers.Dropout(0.1)(h)
model = keras.Model(ids, layers.Dense(4)(h))
model.compile(keras.optimizers.Adam(3e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=["accuracy"])
model.fit(dataset("data/tokens/train-*", True), validation_data=dataset("data/tokens/val-*", False), epochs=5, verbose=2)
