import keras
import tensorflow as tf
from keras import layers


def parse(p):
    e = tf.io.parse_single_example(p, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.io.parse_tensor(e["image"], tf.uint8)
    image = tf.reshape(image, [24, 24, 3])
    return tf.cast(image, tf.float32) / 255.0, e["label"]


train_ds = tf.data.TFRecordDataset("data/tensors/train.tfrecord").map(parse).cache().shuffle(300).batch(30)
val_ds = tf.data.TFRecordDataset("data/tensors/val.tfrecord").map(parse).batch(30)

inputs = keras.Input((24, 24, 3))
x = layers.Conv2D(16, 3, padding="same")(inputs)
x = layers.BatchNormalization()(x)
x = layers.Activation("relu")(x)
x = layers.MaxPooling2D(4)(x)
x = layers.Flatten()(x)
x = layers.Dropout(0.5)(x)
outputs = layers.Dense(3)(x)
model = keras.Model(inputs, outputs)

optimizer = keras.optimizers.Adam(2e-3)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
train_metric = keras.metrics.SparseCategoricalAccuracy()
val_metric = keras.metrics.SparseCategoricalAccuracy()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        loss_value = loss_fn(y, logits)
    grads = tape.gradient(loss_value, model.trainable_weights)
    optimizer.apply(grads, model.trainable_weights)
    train_metric.update_state(y, logits)
    return loss_value


@tf.function
def test_step(x, y):
    val_logits = model(x, training=True)
    val_metric.update_state(y, val_logits)


for epoch in range(5):
    for step, (xb, yb) in enumerate(train_ds):
        loss_value = train_step(xb, yb)
    for xb, yb in val_ds:
        test_step(xb, yb)
    print(f"epoch {epoch}: loss {float(loss_value):.4f} acc {float(train_metric.result()):.4f} "
          f"val {float(val_metric.result()):.4f}")
    train_metric.reset_state()
    val_metric.reset_state()
