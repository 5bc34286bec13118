import numpy as np
import tensorflow as tf

MEMBERS = 3
raw = {"features": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


def parse(batch):
    ex = tf.io.parse_example(batch, raw)
    x = tf.io.decode_raw(ex["features"], tf.float32)        # (batch, 16)
    return tf.ensure_shape(x, [None, 16]), ex["label"]


val = tf.data.TFRecordDataset("data/vectors/val.tfrecord").batch(100).map(parse)
x_val, y_val = next(iter(val))

probs = []
for seed in range(MEMBERS):
    tf.keras.utils.set_random_seed(seed)                     # other weights, other order of the data
    train = tf.data.TFRecordDataset("data/vectors/train.tfrecord").shuffle(400, seed=seed).batch(20).map(parse)
    member = tf.keras.Sequential([
        tf.keras.Input((16,)),
        tf.keras.layers.Dense(8, activation="tanh"),
        tf.keras.layers.Dense(3, activation="softmax"),
    ])
    member.compile(tf.keras.optimizers.Adam(1e-2), "sparse_categorical_crossentropy", metrics=["accuracy"])
    h = member.fit(train, epochs=3, verbose=0)
    print(f"member {seed}: loss {h.history['loss'][0]:.3f} -> {h.history['loss'][-1]:.3f}")
    probs.append(member.predict(x_val, verbose=0))

mean = np.mean(probs, axis=0)
entropy = -np.sum(mean * np.log(mean + 1e-9), axis=1)
print("ensemble accuracy", np.mean(mean.argmax(1) == y_val.numpy()))
print("ensemble NLL", -np.mean(np.log(mean[np.arange(len(mean)), y_val.numpy()])))
print("mean entropy", entropy.mean())
