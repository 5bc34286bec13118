"""
Title: A training loop with loss scaling
Description: LossScaleOptimizer by hand; the policy stays float32 on the CPU, but the mechanics are the same.
"""
import keras
import tensorflow as tf
from keras import layers


def parse(record):
    row = tf.io.parse_single_example(
        record,
        {
            "image": tf.io.FixedLenFeature([], tf.string),
            "meta": tf.io.FixedLenFeature([4], tf.float32),
            "label": tf.io.FixedLenFeature([], tf.int64),
        },
    )
    image = tf.ensure_shape(tf.io.decode_jpeg(row["image"], channels=3), (32, 32, 3))
    return {"image": tf.cast(image, tf.float32) / 255.0, "meta": row["meta"]}, row["label"]


train_ds = tf.data.TFRecordDataset("data/listings/train.tfrecord").map(parse).cache().shuffle(300).batch(30)
val_ds = tf.data.TFRecordDataset("data/listings/val.tfrecord").map(parse).batch(80)

image = keras.Input((32, 32, 3), name="image")
meta = keras.Input((4,), name="meta")
x = layers.Conv2D(16, 3, strides=2, activation="relu")(image)
x = layers.Conv2D(16, 3, strides=2, activation="relu")(x)
x = layers.Concatenate()([layers.GlobalMaxPooling2D()(x), meta])
outputs = layers.Dense(3, dtype="float32")(x)
model = keras.Model({"image": image, "meta": meta}, outputs)

optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(5e-3), initial_scale=2.0**10)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

"""
The gradients of the scaled loss go straight to apply(): the optimizer divides by the scale itself.
"""


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
        scaled = optimizer.scale_loss(loss)
    gradients = tape.gradient(scaled, model.trainable_weights)
    optimizer.apply(gradients, model.trainable_weights)
    return loss


for epoch in range(5):
    for x, y in train_ds:
        loss = train_step(x, y)
    metric = keras.metrics.SparseCategoricalAccuracy()
    for x, y in val_ds:
        metric.update_state(y, model(x))
    print(f"epoch {epoch} loss {float(loss):.3f} accuracy {float(metric.result()):.3f}")
