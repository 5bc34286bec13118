import keras
import tensorflow as tf
from keras import layers

keras.mixed_precision.set_global_policy("mixed_float16")

BATCH, EPOCHS = 30, 2


def parse(rec):
    f = tf.io.parse_single_example(rec, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    img = tf.io.parse_tensor(f["image"], tf.uint8)
    img = tf.ensure_shape(img, [24, 24, 3])
    return tf.cast(img, tf.float32) / 255.0, f["label"]


train = tf.data.TFRecordDataset("data/tensors/train.tfrecord").map(parse).cache().shuffle(300).batch(BATCH).prefetch(1)
val = tf.data.TFRecordDataset("data/tensors/val.tfrecord").map(parse).batch(BATCH).cache()

inputs = keras.Input((24, 24, 3))
x = layers.Conv2D(8, 3, activation="relu")(inputs)
x = layers.MaxPooling2D()(x)
x = layers.Conv2D(16, 3, activation="relu")(x)
x = layers.GlobalAveragePooling2D()(x)
outputs = layers.Dense(3, dtype="float32")(x)   # logits stay in float32
model = keras.Model(inputs, outputs)

optimizer = keras.optimizers.Adam(3e-3)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
train_loss = keras.metrics.Mean()
val_acc = keras.metrics.SparseCategoricalAccuracy()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    train_loss.update_state(loss)


for epoch in range(EPOCHS):
    train_loss.reset_state()
    val_acc.reset_state()
    for x_b, y_b in train:
        train_step(x_b, y_b)
    for x_b, y_b in val:
        val_acc.update_state(y_b, model(x_b, training=False))
    print(f"epoch {epoch}: loss {float(train_loss.result()):.4f}  val acc {float(val_acc.result()):.3f}")
