import numpy as np
import tensorflow as tf

VOCAB, DIM, NEG, WINDOW = 2000, 16, 4, 2
rng = np.random.default_rng(1)


def sequences(pattern):
    for r in tf.data.TFRecordDataset(tf.io.gfile.glob(pattern)).as_numpy_iterator():
        yield list(tf.train.Example.FromString(r).features.feature["tokens"].int64_list.value)


texts = list(sequences("data/tokens/train-*"))
counts = np.bincount(np.concatenate(texts), minlength=VOCAB).astype(float)
noise = counts ** 0.75
noise /= noise.sum()

pairs = [(t[i], t[j]) for t in texts for i in range(len(t))
         for j in range(max(0, i - WINDOW), min(len(t), i + WINDOW + 1)) if i != j]
centre, context = np.array(pairs).T
negatives = rng.choice(VOCAB, size=(len(centre), NEG), p=noise)
candidates = np.concatenate([context[:, None], negatives], axis=1)      # the true one comes first
target = np.zeros_like(candidates, dtype=np.float32)
target[:, 0] = 1.0
print(len(centre), "pairs")

ds = tf.data.Dataset.from_tensor_slices(((centre, candidates), target))
ds = ds.shuffle(len(centre)).batch(512).prefetch(1)


class SkipGram(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.w_in = tf.keras.layers.Embedding(VOCAB, DIM)
        self.w_out = tf.keras.layers.Embedding(VOCAB, DIM, embeddings_initializer="zeros")

    def call(self, inputs):
        c, others = inputs
        return tf.einsum("bd,bkd->bk", self.w_in(c), self.w_out(others))


model = SkipGram()
model.compile(tf.keras.optimizers.Adam(1e-2), tf.keras.losses.BinaryCrossentropy(from_logits=True))
model.fit(ds, epochs=4, verbose=2)

vectors = tf.math.l2_normalize(model.w_in.embeddings, axis=1).numpy()
topics = vectors[1900:1980].reshape(4, 20, DIM)
within = np.mean([np.mean(t @ t.T) for t in topics])
across = np.mean(topics[0] @ topics[1].T)
print(f"cosine within a topic {within:.2f}, across topics {across:.2f}")
