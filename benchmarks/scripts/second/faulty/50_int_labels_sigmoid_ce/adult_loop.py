# logistic regression + small MLP on the adult records, low level loop
import tensorflow as tf
from tensorflow import keras

JOBS = tf.constant(["clerk", "farmer", "sales", "tech"])
SPEC = {
    "age": tf.io.FixedLenFeature([], tf.int64),
    "hours": tf.io.FixedLenFeature([], tf.float32),
    "gain": tf.io.FixedLenFeature([], tf.float32),
    "job": tf.io.FixedLenFeature([], tf.string),
    "married": tf.io.FixedLenFeature([], tf.int64),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def parse_batch(records):
    d = tf.io.parse_example(records, SPEC)
    numeric = tf.stack([
        (tf.cast(d["age"], tf.float32) - 38.0) / 11.0,
        (d["hours"] - 40.0) / 8.0,
        tf.math.log1p(d["gain"]) / 5.0,
        tf.cast(d["married"], tf.float32),
    ], axis=1)
    job = tf.cast(tf.equal(d["job"][:, None], JOBS[None, :]), tf.float32)
    return tf.concat([numeric, job], axis=1), d["label"]


def dataset(pattern, train):
    ds = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(pattern)))
    if train:
        ds = ds.shuffle(600)
    return ds.batch(50).map(parse_batch).prefetch(tf.data.AUTOTUNE)


model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam(5e-3)


def compute_loss(logits, labels):
    per_example = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=tf.squeeze(logits, -1))
    return tf.reduce_mean(per_example)


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = compute_loss(model(x, training=True), y)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


train_ds = dataset("data/adult/train-*", True)
val_ds = dataset("data/adult/val-*", False)
auc = keras.metrics.AUC()
for epoch in range(3):
    for x, y in train_ds:
        loss = step(x, y)
    auc.reset_state()
    for x, y in val_ds:
        auc.update_state(y, tf.sigmoid(model(x, training=False)))
    print(f"epoch {epoch} last loss {float(loss):.4f} val auc {float(auc.result()):.3f}")
