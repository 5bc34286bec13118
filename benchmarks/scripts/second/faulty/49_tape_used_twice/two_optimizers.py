import tensorflow as tf
import keras
from keras import layers

BATCH = 30


def parse(rec):
    e = tf.io.parse_single_example(rec, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "meta": tf.io.FixedLenFeature([4], tf.float32),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    img = tf.io.decode_jpeg(e["image"], channels=3)
    img = tf.ensure_shape(img, [32, 32, 3])
    return (tf.cast(img, tf.float32) / 255.0, e["meta"]), e["label"]


train = tf.data.TFRecordDataset("data/listings/train.tfrecord").map(parse).cache().shuffle(300).batch(BATCH)
val = tf.data.TFRecordDataset("data/listings/val.tfrecord").map(parse).batch(BATCH).cache()

vision = keras.Sequential([
    keras.Input((32, 32, 3)),
    layers.Conv2D(16, 3, strides=2, activation="relu"),
    layers.Conv2D(32, 3, strides=2, activation="relu"),
    layers.GlobalAveragePooling2D(),
])
head = keras.Sequential([keras.Input((36,)), layers.Dense(32, activation="relu"), layers.Dense(3)])

slow = keras.optimizers.Adam(5e-4)   # convolution part
fast = keras.optimizers.Adam(3e-3)   # classifier part
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def forward(inputs, training):
    img, meta = inputs
    return head(tf.concat([vision(img, training=training), meta], axis=-1), training=training)


@tf.function
def train_step(inputs, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, forward(inputs, training=True))
    g_vision = tape.gradient(loss, vision.trainable_variables)
    g_head = tape.gradient(loss, head.trainable_variables)
    slow.apply_gradients(zip(g_vision, vision.trainable_variables))
    fast.apply_gradients(zip(g_head, head.trainable_variables))
    return loss


acc = keras.metrics.SparseCategoricalAccuracy()
for epoch in range(3):
    losses = [float(train_step(x, y)) for x, y in train]
    acc.reset_state()
    for x, y in val:
        acc.update_state(y, forward(x, training=False))
    print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}, val acc {float(acc.result()):.3f}")
