# Writing a training loop from scratch
# Based on the guide; our data are vectors stored as raw bytes.
import tensorflow as tf
from tensorflow import keras

schema = {"features": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


def parse(record):
    row = tf.io.parse_single_example(record, schema)
    return tf.ensure_shape(tf.io.decode_raw(row["features"], tf.float32), [16]), row["label"]


train_dataset = tf.data.TFRecordDataset("data/vectors/train.tfrecord").map(parse).shuffle(400).batch(32)
val_dataset = tf.data.TFRecordDataset("data/vectors/val.tfrecord").map(parse).batch(50)

inputs = keras.Input((16,))
x = keras.layers.Dense(16, activation="relu")(inputs)
model = keras.Model(inputs, keras.layers.Dense(3)(x))

optimizer = keras.optimizers.Adam(1e-3)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
train_acc_metric = keras.metrics.SparseCategoricalAccuracy()
val_acc_metric = keras.metrics.SparseCategoricalAccuracy()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        loss_value = loss_fn(y, logits)
    grads = tape.gradient(loss_value, model.trainable_weights)
    optimizer.apply_gradients(zip(grads, model.trainable_weights))
    train_acc_metric.update_state(y, logits)
    return loss_value


@tf.function
def test_step(x, y):
    val_acc_metric.update_state(y, model(x, training=False))


for epoch in range(8):
    print(f"\nStart of epoch {epoch}")
    for step, (x_batch, y_batch) in enumerate(train_dataset):
        loss_value = train_step(x_batch, y_batch)
        if step % 6 == 0:
            print(f"Training loss (for 1 batch) at step {step}: {float(loss_value):.4f}")

    print(f"Training acc over epoch: {float(train_acc_metric.result()):.4f}")

    for x_batch, y_batch in val_dataset:
        test_step(x_batch, y_batch)
    print(f"Validation acc: {float(val_acc_metric.result()):.4f}")
