"""Causal LM, sampled softmax not needed for 2000 ids."""
import math

import tensorflow as tf

tf.keras.utils.set_random_seed(5)
LEN = 24


def load(split):
    files = sorted(tf.io.gfile.glob(f'data/tokens/{split}-*'))
    ds = tf.data.TFRecordDataset(files)
    ds = ds.map(lambda r: tf.io.parse_single_example(r, {'tokens': tf.io.RaggedFeature(tf.int64)})['tokens'])
    # one long stream of tokens, 0 between texts, cut into equal pieces
    ds = ds.flat_map(lambda t: tf.data.Dataset.from_tensor_slices(tf.concat([t, [tf.constant(0, tf.int64)]], 0)))
    ds = ds.batch(LEN + 1, drop_remainder=True)
    return ds.map(lambda t: (t[:-1], t[1:]))


model = tf.keras.Sequential([
    tf.keras.Input((LEN,), dtype='int64'),
    tf.keras.layers.Embedding(2000, 24),
    tf.keras.layers.GRU(32, return_sequences=True),
    tf.keras.layers.Dense(2000),
])
opt = tf.keras.optimizers.Adam(1e-2)
xent = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = xent(y, model(x, training=True))
    grads, _ = tf.clip_by_global_norm(tape.gradient(loss, model.trainable_variables), 1.0)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


train, val = load('train').cache().shuffle(400).batch(16), load('val').cache().batch(16, drop_remainder=True)
for epoch in range(3):
    for x, y in train:
        step(x, y)
    nll = tf.reduce_mean([xent(y, model(x)) for x, y in val])
    print(f'epoch {epoch} val ppl {math.exp(float(nll)):.1f}')
