import glob

import tensorflow as tf

SPEC = {
    "age": tf.io.FixedLenFeature([], tf.int64),
    "hours": tf.io.FixedLenFeature([], tf.float32),
    "gain": tf.io.FixedLenFeature([], tf.float32),
    "job": tf.io.FixedLenFeature([], tf.string),
    "married": tf.io.FixedLenFeature([], tf.int64),
    "label": tf.io.FixedLenFeature([], tf.int64),
}
jobs = tf.constant(["clerk", "farmer", "sales", "tech"])


def to_features(rows):
    r = tf.io.parse_example(rows, SPEC)
    one_hot = tf.cast(tf.equal(r["job"][:, None], jobs[None, :]), tf.float32)
    dense = tf.stack([
        (tf.cast(r["age"], tf.float32) - 38.0) / 10.0,
        (r["hours"] - 40.0) / 8.0,
        tf.math.log1p(r["gain"]) / 10.0,
        tf.cast(r["married"], tf.float32),
    ], axis=1)
    return tf.concat([dense, one_hot], axis=1), tf.cast(r["label"][:, None], tf.float32)


train = tf.data.TFRecordDataset(glob.glob("data/adult/train*")).shuffle(600).batch(64).map(to_features)
valid = tf.data.TFRecordDataset(glob.glob("data/adult/val*")).batch(150).map(to_features)

model = tf.keras.Sequential([
    tf.keras.Input((8,)),
    tf.keras.layers.Dense(32, activation="relu"),
    tf.keras.layers.Dense(1),
])
bce = tf.keras.losses.BinaryCrossentropy(from_logits=True)
opt = tf.keras.optimizers.Adam(1e-2)
auc = tf.keras.metrics.AUC(from_logits=True)


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        loss = bce(y, logits)
    grads = tape.gradient(loss, model.trainable_variables)
    grads, norm = tf.clip_by_global_norm(grads, 1.0)
    return loss, norm


for epoch in range(6):
    mean_loss = tf.keras.metrics.Mean()
    for x, y in train:
        loss, norm = step(x, y)
        mean_loss.update_state(loss)
    auc.reset_state()
    for x, y in valid:
        auc.update_state(y, model(x, training=False))
    tf.print("epoch", epoch, "loss", mean_loss.result(), "grad norm", norm, "val auc", auc.result())
