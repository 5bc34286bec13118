import numpy as np
import tensorflow as tf

ACCUM = 4            # micro batches of 10 act as a batch of 40
MICRO = 10
EPOCHS = 4


def parse(s):
    d = tf.io.parse_single_example(
        s, {"features": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    )
    x = tf.io.decode_raw(d["features"], tf.float32, little_endian=True)
    return tf.reshape(x, [16]), d["label"]


train = (
    tf.data.TFRecordDataset("data/vectors/train.tfrecord")
    .map(parse)
    .cache()
    .shuffle(400)
    .batch(MICRO, drop_remainder=True)
)
val = tf.data.TFRecordDataset("data/vectors/val.tfrecord").map(parse).batch(50)

model = tf.keras.Sequential(
    [tf.keras.Input((16,)), tf.keras.layers.Dense(32, activation="gelu"), tf.keras.layers.Dense(3)]
)
opt = tf.keras.optimizers.Adam(1e-2)
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
buffers = [tf.Variable(tf.zeros_like(v), trainable=False) for v in model.trainable_variables]


@tf.function
def micro_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
        part = loss / ACCUM
    for b, g in zip(buffers, tape.gradient(part, model.trainable_variables)):
        b.assign_add(g)
    return loss


@tf.function
def apply_step():
    opt.apply_gradients([(b.value(), v) for b, v in zip(buffers, model.trainable_variables)])
    for b in buffers:
        b.assign(tf.zeros_like(b))


opt.build(model.trainable_variables)
for epoch in range(EPOCHS):
    losses = []
    for i, (x, y) in enumerate(train, start=1):
        losses.append(float(micro_step(x, y)))
        if i % ACCUM == 0:
            apply_step()
    acc = tf.keras.metrics.SparseCategoricalAccuracy()
    for x, y in val:
        acc.update_state(y, model(x, training=False))
    print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}  val acc {float(acc.result()):.3f}")
