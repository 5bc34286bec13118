"""Tiny causal LM over the tag sequences (perplexity is the baseline for the CRF paper)."""
import math

import tensorflow as tf

BOS, VOCAB = 5, 6


def parse(r):
    e = tf.io.parse_single_example(r, {"tags": tf.io.RaggedFeature(tf.int64)})
    return tf.concat([[tf.constant(BOS, tf.int64)], e["tags"]], 0)


def load(split):
    ds = tf.data.TFRecordDataset(f"data/tags/{split}.tfrecord").map(parse)
    if split == "train":
        ds = ds.shuffle(300, seed=0)
    return ds.padded_batch(20, [21], padding_values=tf.constant(-1, tf.int64))


class LM(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.emb = tf.keras.layers.Embedding(VOCAB, 16)
        self.rnn = tf.keras.layers.GRU(32, return_sequences=True)
        self.out = tf.keras.layers.Dense(VOCAB)

    def call(self, ids):
        return self.out(self.rnn(self.emb(ids)))


lm = LM()
opt = tf.keras.optimizers.Adam(5e-3)


def nll(seq):
    ids = tf.maximum(seq, 0)
    inputs, targets = ids[:, :-1], ids[:, :-1]
    keep = tf.cast(seq[:, :-1] >= 0, tf.float32)
    ce = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=lm(inputs))
    return tf.reduce_sum(ce * keep), tf.reduce_sum(keep)


@tf.function
def step(seq):
    with tf.GradientTape() as tape:
        total, n = nll(seq)
        loss = total / n
    opt.apply_gradients(zip(tape.gradient(loss, lm.trainable_variables), lm.trainable_variables))
    return loss


for epoch in range(5):
    for seq in load("train"):
        step(seq)
    sums = [nll(seq) for seq in load("val")]
    ppl = math.exp(sum(float(a) for a, _ in sums) / sum(float(b) for _, b in sums))
    print(f"epoch {epoch} val ppl {ppl:.3f}")
