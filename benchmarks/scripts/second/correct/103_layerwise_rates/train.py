"""Discriminative fine-tuning: body at 2e-5, head at 5e-3, two optimizers over disjoint variables."""
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers


def pretrain_body():
    """Stands for a checkpoint from elsewhere: learn shapes first."""
    def parse(r):
        f = tf.io.parse_single_example(r, {"image": tf.io.FixedLenFeature([], tf.string),
                                           "label": tf.io.FixedLenFeature([], tf.int64)})
        return tf.image.resize(tf.io.decode_jpeg(f["image"], channels=3), (64, 64)) / 255.0, f["label"]
    ds = tf.data.TFRecordDataset("data/shapes_pool/all.tfrecord").map(parse).cache().shuffle(400).batch(40)
    body = keras.Sequential([keras.Input((64, 64, 3)),
                             layers.Conv2D(16, 5, strides=3, activation="relu"),
                             layers.Conv2D(32, 3, strides=2, activation="relu"),
                             layers.GlobalMaxPooling2D()])
    m = keras.Sequential([body, layers.Dense(4, activation="softmax")])
    m.compile(keras.optimizers.Adam(4e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    m.fit(ds, epochs=4, verbose=2)
    return body


def flowers(split):
    def parse(r):
        f = tf.io.parse_single_example(r, {"image": tf.io.FixedLenFeature([], tf.string),
                                           "label": tf.io.FixedLenFeature([], tf.int64)})
        im = tf.cast(tf.io.decode_jpeg(f["image"], channels=3), tf.float32) / 255.0
        return tf.ensure_shape(im, (64, 64, 3)), f["label"] - 1
    return tf.data.TFRecordDataset(tf.io.gfile.glob(f"data/flowers/{split}-*")).map(parse).cache()


body = pretrain_body()
head = keras.Sequential([keras.Input((32,)), layers.Dense(32, activation="relu"), layers.Dense(5)])
opt_body, opt_head = keras.optimizers.Adam(2e-5), keras.optimizers.Adam(5e-3)
ce = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = ce(y, head(body(x, training=True), training=True))
    g_body, g_head = tape.gradient(loss, [body.trainable_variables, head.trainable_variables])
    opt_body.apply_gradients(zip(g_body, body.trainable_variables))
    opt_head.apply_gradients(zip(g_head, head.trainable_variables))
    return loss


for epoch in range(6):
    mean, acc = keras.metrics.Mean(), keras.metrics.SparseCategoricalAccuracy()
    for x, y in flowers("train").shuffle(250).batch(25):
        mean.update_state(step(x, y))
    for x, y in flowers("val").batch(50):
        acc.update_state(y, head(body(x, training=False), training=False))
    print(f"epoch {epoch}: loss {float(mean.result()):.3f} val accuracy {float(acc.result()):.3f}")
