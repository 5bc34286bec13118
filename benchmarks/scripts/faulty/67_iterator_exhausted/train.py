import tensorflow as tf

VOCAB, DIM, CLASSES = 2000, 16, 4


def parse(s):
    f = tf.io.parse_single_example(s, {
        "tokens": tf.io.RaggedFeature(tf.int64),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    return f["tokens"], f["label"]


def load(split):
    return tf.data.TFRecordDataset(tf.io.gfile.glob(f"data/tokens/{split}-*")).map(parse)


train_iter = iter(load("train").shuffle(400).padded_batch(25))
val_ds = load("val").padded_batch(25)

model = tf.keras.Sequential([
    tf.keras.layers.Embedding(VOCAB, DIM, mask_zero=True),
    tf.keras.layers.GlobalAveragePooling1D(),
    tf.keras.layers.Dense(CLASSES),
])
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
opt = tf.keras.optimizers.Adam(1e-3)


@tf.function(reduce_retracing=True)
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


for epoch in range(10):
    running = tf.keras.metrics.Mean()
    for x, y in train_iter:
        running.update_state(train_step(x, y))
    acc = tf.keras.metrics.SparseCategoricalAccuracy()
    for x, y in val_ds:
        acc.update_state(y, model(x, training=False))
    print(f"[{epoch + 1}/10] loss={running.result():.4f} val_acc={acc.result():.4f}")
