import tensorflow as tf

EPOCHS = 3
BATCH = 50
STEPS = 500 // BATCH

spec = {"image_raw": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


def parse(r):
    p = tf.io.parse_single_example(r, spec)
    im = tf.reshape(tf.io.decode_raw(p["image_raw"], tf.uint8), [28, 28, 1])
    return tf.cast(im, tf.float32) / 255.0, p["label"]


# one fixed random order, so that runs can be compared
train = (
    tf.data.Dataset.list_files("data/digits/train-*.tfrecord", shuffle=False)
    .interleave(tf.data.TFRecordDataset, cycle_length=2)
    .map(parse)
    .shuffle(500, seed=11, reshuffle_each_iteration=False)
    .batch(BATCH)
    .prefetch(1)
)
test = tf.data.TFRecordDataset(tf.io.gfile.glob("data/digits/test-*.tfrecord")).map(parse).batch(BATCH)

model = tf.keras.Sequential([
    tf.keras.Input((28, 28, 1)),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(128, activation="relu"),
    tf.keras.layers.Dense(10),
])
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
opt = tf.keras.optimizers.Adam(2e-3)
train_loss = tf.keras.metrics.Mean()
test_acc = tf.keras.metrics.SparseCategoricalAccuracy()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        loss = loss_fn(y, logits)
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    train_loss.update_state(loss)


for epoch in range(EPOCHS):
    train_loss.reset_state()
    test_acc.reset_state()
    for step in range(STEPS):
        x, y = next(iter(train))
        train_step(x, y)
    for x, y in test:
        test_acc.update_state(y, model(x, training=False))
    print(f"epoch {epoch + 1}: loss {float(train_loss.result()):.3f} test acc {float(test_acc.result()):.3f}")
