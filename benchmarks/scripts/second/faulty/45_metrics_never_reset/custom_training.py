import time

import tensorflow as tf
from tensorflow import keras

feature_spec = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def parse_fn(serialized):
    sample = tf.io.parse_single_example(serialized, feature_spec)
    image = tf.io.parse_tensor(sample["image"], out_type=tf.uint8)
    image = tf.cast(tf.reshape(image, (24, 24, 3)), tf.float32) / 255.0
    return image, sample["label"]


train_dataset = tf.data.TFRecordDataset("data/tensors/train.tfrecord").map(parse_fn).shuffle(300).batch(30)
val_dataset = tf.data.TFRecordDataset("data/tensors/val.tfrecord").map(parse_fn).batch(30)

inputs = keras.Input((24, 24, 3))
x = keras.layers.Conv2D(16, 3, activation="relu")(inputs)
x = keras.layers.MaxPooling2D()(x)
x = keras.layers.Conv2D(32, 3, activation="relu")(x)
x = keras.layers.GlobalAveragePooling2D()(x)
outputs = keras.layers.Dense(3)(x)
model = keras.Model(inputs, outputs)

optimizer = keras.optimizers.Adam(3e-3)
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


best = 0.0
for epoch in range(4):
    start_time = time.time()
    for step, (x_batch, y_batch) in enumerate(train_dataset):
        loss_value = train_step(x_batch, y_batch)
        if step % 5 == 0:
            print("step", step, "loss", float(loss_value))
    print("Training acc over epoch: %.4f" % float(train_acc_metric.result()))
    for x_batch, y_batch in val_dataset:
        test_step(x_batch, y_batch)
    val_acc = float(val_acc_metric.result())
    if val_acc > best:
        best = val_acc
        model.save_weights("best.weights.h5")
    print("Validation acc: %.4f" % val_acc, "time: %.2fs" % (time.time() - start_time))
