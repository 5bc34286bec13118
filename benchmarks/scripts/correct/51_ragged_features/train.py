import tensorflow as tf


def parse(batch):
    columns = tf.io.parse_example(batch, {
        'tokens': tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64),
        'label': tf.io.FixedLenFeature([], tf.int64),
    })
    return columns['tokens'], columns['label']


train = (tf.data.TFRecordDataset(tf.io.gfile.glob('data/tokens/train-*'))
         .shuffle(400).batch(25).map(parse).prefetch(tf.data.AUTOTUNE))
val = tf.data.TFRecordDataset(tf.io.gfile.glob('data/tokens/val-*')).batch(25).map(parse)

table = tf.Variable(tf.random.normal([2000, 32], stddev=0.05), name='embeddings')
kernel = tf.Variable(tf.random.normal([32, 4], stddev=0.2), name='kernel')
bias = tf.Variable(tf.zeros([4]), name='bias')
variables = [table, kernel, bias]
optimizer = tf.keras.optimizers.Adam(0.02)


def logits_of(tokens):
    embedded = tf.ragged.map_flat_values(tf.nn.embedding_lookup, table, tokens)
    return tf.reduce_mean(embedded, axis=1) @ kernel + bias


@tf.function(reduce_retracing=True)
def train_step(tokens, label):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits_of(tokens)))
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss


for epoch in range(8):
    loss = tf.keras.metrics.Mean()
    for tokens, label in train:
        loss.update_state(train_step(tokens, label))
    accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
    for tokens, label in val:
        accuracy.update_state(label, logits_of(tokens))
    print(f'epoch {epoch} loss {loss.result():.4f} val accuracy {accuracy.result():.3f}')
