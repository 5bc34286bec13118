"""Logistic regression over a bag of words held as sparse tensors."""
import tensorflow as tf

VOCAB = 2000


def parse(records):
    ex = tf.io.parse_example(
        records, {"tokens": tf.io.VarLenFeature(tf.int64), "label": tf.io.FixedLenFeature([], tf.int64)}
    )
    return ex["tokens"], ex["label"]


def dataset(pattern, train=False):
    ds = tf.data.TFRecordDataset(tf.io.gfile.glob(pattern))
    if train:
        ds = ds.shuffle(400)
    return ds.batch(40).map(parse)


weights = tf.Variable(tf.zeros([VOCAB, 4]))
bias = tf.Variable(tf.zeros([4]))
optimizer = tf.keras.optimizers.Adam(0.05)
optimizer.build([weights, bias])


@tf.function(reduce_retracing=True)
def logits_of(tokens):
    # mean of the rows of the words in each text
    return tf.nn.embedding_lookup_sparse(weights, tokens, None, combiner="mean") + bias


def train_one_epoch(ds):
    total = tf.keras.metrics.Mean()
    for tokens, labels in ds:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits_of(tokens)))
        grads = tape.gradient(loss, [weights, bias])
        optimizer.apply_gradients(zip(grads, [weights, bias]))
        total.update_state(loss)
    return float(total.result())


def accuracy(ds):
    m = tf.keras.metrics.SparseCategoricalAccuracy()
    for tokens, labels in ds:
        m.update_state(labels, logits_of(tokens))
    return float(m.result())


for epoch in range(5):
    loss = train_one_epoch(dataset("data/tokens/train-*", train=True))
    print(f"epoch {epoch}: loss {loss:.3f}, val accuracy {accuracy(dataset('data/tokens/val-*')):.3f}")
