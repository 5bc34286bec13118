import glob
import tensorflow as tf
import keras
from keras import layers, ops

MAXLEN = 40


def parse(rec):
    e = tf.io.parse_single_example(rec, {
        "tokens": tf.io.VarLenFeature(tf.int64),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    return tf.sparse.to_dense(e["tokens"]), e["label"]


def dataset(split):
    ds = tf.data.TFRecordDataset(sorted(glob.glob(f"data/tokens/{split}-*.tfrecord"))).map(parse)
    if split == "train":
        ds = ds.shuffle(400)
    return ds.padded_batch(32, padded_shapes=([MAXLEN], [])).prefetch(2)


class AttentionClassifier(keras.Model):
    def __init__(self, vocab, classes, dim=32):
        super().__init__()
        self.embed = layers.Embedding(vocab, dim)
        self.hidden = layers.Dense(dim, activation="tanh")
        self.score = layers.Dense(1, use_bias=False)
        self.out = layers.Dense(classes)

    def call(self, tokens):
        mask = ops.cast(ops.not_equal(tokens, 0), "float32")[..., None]
        x = self.embed(tokens)
        scores = self.score(self.hidden(x))
        scores = scores - 1e9 * (1.0 - mask)
        weights = ops.softmax(scores, axis=-1) * mask
        pooled = ops.sum(weights * x, axis=1)
        return self.out(pooled)


model = AttentionClassifier(vocab=2000, classes=4)
model.compile(
    optimizer=keras.optimizers.Adam(3e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(dataset("train"), validation_data=dataset("val"), epochs=3)
