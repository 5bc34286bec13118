import tensorflow as tf
from tensorflow.keras import layers, mixed_precision

mixed_precision.set_global_policy("mixed_float16")

FEATS = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


def parse_fn(rec):
    ex = tf.io.parse_single_example(rec, FEATS)
    img = tf.io.parse_tensor(ex["image"], out_type=tf.uint8)
    img = tf.ensure_shape(img, (24, 24, 3))
    return tf.image.convert_image_dtype(img, tf.float32), tf.cast(ex["label"], tf.int32)


train_ds = tf.data.TFRecordDataset("data/tensors/train.tfrecord").map(parse_fn).shuffle(300).batch(30).prefetch(2)
valid_ds = tf.data.TFRecordDataset("data/tensors/val.tfrecord").map(parse_fn).batch(30)

inp = tf.keras.Input((24, 24, 3))
h = layers.Conv2D(16, 3, activation="relu")(inp)
h = layers.MaxPool2D()(h)
h = layers.Flatten()(h)
h = layers.Dense(32, activation="relu")(h)
h = layers.Dense(3)(h)
out = layers.Activation("softmax", dtype="float32")(h)  # keep the output in float32
net = tf.keras.Model(inp, out)

optimizer = mixed_precision.LossScaleOptimizer(tf.keras.optimizers.Adam(2e-3))
loss_obj = tf.keras.losses.SparseCategoricalCrossentropy()
train_loss = tf.keras.metrics.Mean()
train_acc = tf.keras.metrics.SparseCategoricalAccuracy()
valid_acc = tf.keras.metrics.SparseCategoricalAccuracy()


@tf.function
def train_step(images, labels):
    with tf.GradientTape() as tape:
        probs = net(images, training=True)
        loss = loss_obj(labels, probs)
        scaled = optimizer.scale_loss(loss)
    grads = tape.gradient(scaled, net.trainable_variables)
    optimizer.apply_gradients(zip(grads, net.trainable_variables))  # unscales by itself
    train_loss.update_state(loss)
    train_acc.update_state(labels, probs)


@tf.function
def valid_step(images, labels):
    valid_acc.update_state(labels, net(images, training=False))


for epoch in range(1, 4):
    for m in (train_loss, train_acc, valid_acc):
        m.reset_state()
    for xb, yb in train_ds:
        train_step(xb, yb)
    for xb, yb in valid_ds:
        valid_step(xb, yb)
    print(
        f"[{epoch}] loss={train_loss.result():.3f} acc={train_acc.result():.3f} val_acc={valid_acc.result():.3f}"
    )
