import numpy as np
import tensorflow as tf


def parse(r):
    e = tf.io.parse_single_example(r, {
        "features": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    x = tf.io.decode_raw(e["features"], tf.float32)
    return tf.reshape(x, [16]), e["label"]


train = tf.data.TFRecordDataset("data/vectors/train.tfrecord").map(parse).shuffle(400).batch(40)
val = tf.data.TFRecordDataset("data/vectors/val.tfrecord").map(parse).batch(100)

model = tf.keras.Sequential([
    tf.keras.layers.Input((16,)),
    tf.keras.layers.Dense(16, activation="relu"),
    tf.keras.layers.Dense(3, activation="softmax"),
])
optimizer = tf.keras.optimizers.Adam(0.01)

for epoch in range(5):
    total = 0
    for x, y in train:
        with tf.GradientTape() as tape:
            probs = model(x, training=True)
            picked = probs.numpy()[np.arange(len(y)), y.numpy()]
            loss = tf.reduce_mean(-tf.math.log(picked + 1e-7))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        total += float(loss)
    print("epoch", epoch, "loss", total)

for x, y in val:
    acc = np.mean(np.argmax(model(x), axis=1) == y.numpy())
    print("val accuracy", acc)
