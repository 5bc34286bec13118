"""A next-token model. Part of the tokens come from a few ids, so the loss falls below log(2000) = 7.6."""
import math

import tensorflow as tf
from tensorflow import keras

VOCAB = 2000


def parse(r):
    ids = tf.sparse.to_dense(
        tf.io.parse_single_example(r, {"tokens": tf.io.VarLenFeature(tf.int64)})["tokens"])
    return ids[:-1], ids[1:]


def batches(pattern, training):
    ds = tf.data.TFRecordDataset(tf.io.gfile.glob(pattern)).map(parse)
    if training:
        ds = ds.shuffle(400)
    return ds.padded_batch(20, padded_shapes=([39], [39])).prefetch(1)


inp = keras.Input((39,), dtype="int64")
h = keras.layers.Embedding(VOCAB, 24)(inp)
h = keras.layers.GRU(32, return_sequences=True)(h)        # looks only backwards, so padding at the end does no harm
model = keras.Model(inp, keras.layers.Dense(VOCAB)(h))
model.compile(
    keras.optimizers.Adam(1e-2),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0),     # zero is padding
)
val = batches("data/tokens/val-*", False)
model.fit(batches("data/tokens/train-*", True), validation_data=val, epochs=3, verbose=2)
print("perplexity on val:", round(math.exp(model.evaluate(val, verbose=0)), 1))
