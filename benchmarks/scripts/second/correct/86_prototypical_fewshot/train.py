"""Prototypical network: each step is an episode of 5 classes, 5 support and 5 query pictures per class."""
import numpy as np
import tensorflow as tf

WAY, SHOT, QUERY = 5, 5, 5
rng = np.random.default_rng(0)


def load(pattern):
    groups = {c: [] for c in range(WAY)}
    for r in tf.data.TFRecordDataset(tf.io.gfile.glob(pattern)):
        e = tf.io.parse_single_example(r, {"image": tf.io.FixedLenFeature([], tf.string),
                                           "label": tf.io.FixedLenFeature([], tf.int64)})
        small = tf.image.resize(tf.io.decode_jpeg(e["image"], channels=3), (32, 32)) / 255.0
        groups[int(e["label"]) - 1].append(small.numpy())
    return {c: np.stack(v) for c, v in groups.items()}


def episode(groups):
    support, query = [], []
    for c in range(WAY):
        pick = rng.permutation(len(groups[c]))[:SHOT + QUERY]        # support and query never overlap
        support.append(groups[c][pick[:SHOT]])
        query.append(groups[c][pick[SHOT:]])
    return tf.constant(np.concatenate(support)), tf.constant(np.concatenate(query))


encoder = tf.keras.Sequential([
    tf.keras.Input((32, 32, 3)),
    tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
    tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(16),
])
opt = tf.keras.optimizers.Adam(2e-3)
target = tf.repeat(tf.range(WAY), QUERY)


def logits(support, query, training):
    prototypes = tf.reduce_mean(tf.reshape(encoder(support, training=training), (WAY, SHOT, -1)), axis=1)
    z = encoder(query, training=training)
    return -tf.reduce_sum(tf.square(z[:, None] - prototypes[None]), axis=-1)


@tf.function
def step(support, query):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(target, logits(support, query, True)))
    grads = tape.gradient(loss, encoder.trainable_variables)
    opt.apply_gradients(zip(grads, encoder.trainable_variables))
    return loss


train, val = load("data/flowers/train-*"), load("data/flowers/val-*")
for i in range(1, 61):
    loss = step(*episode(train))
    if i % 20 == 0:
        acc = [np.mean(np.argmax(logits(*episode(val), False), 1) == target.numpy()) for _ in range(10)]
        print(f"episode {i}: loss {float(loss):.3f} val accuracy {np.mean(acc):.3f} (chance 0.2)")
