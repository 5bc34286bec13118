"""A training loop of one's own, with a gradient tape."""

import tensorflow as tf
from tensorflow import keras

EPOCHS = 2
spec = {"x": tf.io.FixedLenFeature([64], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)}


def parse(records):
    batch = tf.io.parse_example(records, spec)
    return batch["x"], batch["label"]


train = tf.data.TFRecordDataset("sensors/train-00000-of-00001.tfrecord")
train = train.cache()
train = train.shuffle(2000)
train = train.batch(100)
train = train.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
train = train.prefetch(tf.data.AUTOTUNE)

val = tf.data.TFRecordDataset("sensors/val-00000-of-00001.tfrecord")
val = val.batch(100)
val = val.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
val = val.prefetch(tf.data.AUTOTUNE)

model = keras.Sequential(
    [
        keras.Input((64,)),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(5),
    ]
)
optimizer = keras.optimizers.Adam(learning_rate=0.001)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
accuracy = keras.metrics.SparseCategoricalAccuracy()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        loss = loss_fn(y, logits)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for epoch in range(EPOCHS):
    for x, y in train:
        loss = train_step(x, y)
    accuracy.reset_state()
    for x, y in val:
        accuracy.update_state(y, model(x, training=False))
    print(epoch, float(loss), float(accuracy.result()))
