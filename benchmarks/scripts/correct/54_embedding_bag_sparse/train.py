import tensorflow as tf


class EmbeddingBag(tf.keras.Model):
    def __init__(self, rows, dim, classes):
        super().__init__()
        self.table = self.add_weight(shape=(rows, dim), initializer="uniform", name="table")
        self.head = tf.keras.layers.Dense(classes)
        self.head.build((None, dim))

    def call(self, ids):
        bag = tf.nn.embedding_lookup_sparse(tf.convert_to_tensor(self.table), ids, sp_weights=None, combiner="mean")
        return self.head(bag)


def parse(batch):
    d = tf.io.parse_example(batch, {
        "tokens": tf.io.VarLenFeature(tf.int64),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    ids = d["tokens"]
    # stored ids are 1..1999; row 0 of the table is the first of them
    return tf.SparseTensor(ids.indices, ids.values - 1, ids.dense_shape), d["label"]


train = tf.data.TFRecordDataset(
    ["data/tokens/train-00000-of-00002.tfrecord", "data/tokens/train-00001-of-00002.tfrecord"])
train = train.shuffle(400).batch(32, drop_remainder=False).map(parse)
val = tf.data.TFRecordDataset("data/tokens/val-00000-of-00001.tfrecord").batch(100).map(parse)

model = EmbeddingBag(rows=1999, dim=24, classes=4)
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
opt = tf.keras.optimizers.Adagrad(0.5)

for epoch in range(6):
    mean = tf.keras.metrics.Mean()
    for ids, y in train:
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(ids))
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        mean.update_state(loss)
    for ids, y in val:
        accuracy = tf.reduce_mean(tf.cast(tf.argmax(model(ids), -1) == y, tf.float32))
    print(f"epoch {epoch + 1}: loss {mean.result():.4f}, val accuracy {accuracy:.3f}")
