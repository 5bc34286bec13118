"""Large effective batches on a small GPU: accumulate gradients over ACC batches."""
import tensorflow as tf

ACC, BS, EPOCHS = 5, 10, 5
tf.keras.utils.set_random_seed(8)


def load(split):
    def f(r):
        e = tf.io.parse_single_example(r, {"audio": tf.io.FixedLenFeature([400], tf.float32),
                                           "label": tf.io.FixedLenFeature([], tf.int64)})
        return tf.expand_dims(e["audio"], -1), e["label"]
    return tf.data.TFRecordDataset(f"data/audio/{split}.tfrecord").map(f)


net = tf.keras.Sequential([
    tf.keras.layers.Input((400, 1)),
    tf.keras.layers.Conv1D(16, 40, strides=8, activation="relu"),
    tf.keras.layers.Conv1D(16, 5, activation="relu"),
    tf.keras.layers.GlobalAveragePooling1D(),
    tf.keras.layers.Dense(4),
])
opt = tf.keras.optimizers.SGD(0.3)
ce = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
acc_grads = [tf.Variable(tf.zeros_like(v), trainable=False) for v in net.trainable_variables]


@tf.function
def accumulate(x, y):
    with tf.GradientTape() as tape:
        loss = ce(y, net(x, training=True)) / ACC
    for a, g in zip(acc_grads, tape.gradient(loss, net.trainable_variables)):
        a.assign_add(g)
    return loss * ACC


@tf.function
def update():
    opt.apply_gradients(zip(acc_grads, net.trainable_variables))


for epoch in range(EPOCHS):
    total = 0.0
    batches = load("train").shuffle(300).batch(BS, drop_remainder=True)
    for i, (x, y) in enumerate(batches, 1):
        total += float(accumulate(x, y))
        if i % ACC == 0:
            update()
    print(f"epoch {epoch} loss {total / i:.4f}")

m = tf.keras.metrics.SparseCategoricalAccuracy()
for x, y in load("val").batch(80):
    m.update_state(y, net(x))
print(f"val accuracy {m.result():.3f}")
