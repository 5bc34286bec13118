# data: sensors
import tensorflow as tf
import keras
from keras import layers
import time

batch_size = 32
feature_spec = {
    "x": tf.io.FixedLenFeature([16], tf.float32),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def parse(serialized):
    parsed = tf.io.parse_example(serialized, feature_spec)
    return parsed["x"], parsed["label"]


train_ds = tf.data.TFRecordDataset(tf.io.gfile.glob("records/train-*"))
train_ds = train_ds.shuffle(1024).batch(batch_size).map(parse)
val_ds = tf.data.TFRecordDataset(tf.io.gfile.glob("records/val-*")).batch(batch_size).map(parse)

model = keras.Sequential([
    layers.Input((16,)),
    layers.Dense(32, activation="relu"),
    layers.Dropout(0.2),
    layers.Dense(5),
])
optimizer = keras.optimizers.SGD(learning_rate=1e-2, momentum=0.9)
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
    val_logits = model(x, training=False)
    val_acc_metric.update_state(y, val_logits)


epochs = 30
for epoch in range(epochs):
    print(f"\nStart of epoch {epoch}")
    start_time = time.time()
    for step, (x_batch_train, y_batch_train) in enumerate(train_ds):
        loss_value = train_step(x_batch_train, y_batch_train)
        if step % 10 == 0:
            print(f"loss at step {step}: {float(loss_value):.4f}")
    train_acc = train_acc_metric.result()
    print(f"Training acc over epoch: {float(train_acc):.4f}")
    train_acc_metric.reset_state()
    for x_batch_val, y_batch_val in val_ds:
        test_step(x_batch_val, y_batch_val)
    val_acc = val_acc_metric.result()
    val_acc_metric.reset_state()
    print(f"Validation acc: {float(val_acc):.4f}, time {time.time() - start_time:.2f}s")
model.save_weights("/tmp/bushel-nowhere/loop.weights.h5")
