import time

import tensorflow as tf
from tensorflow.keras import layers

BATCH_SIZE = 32
EPOCHS = 6


def _parse(example_proto):
    keys = {'image/encoded': tf.io.FixedLenFeature([], tf.string),
            'image/class/label': tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(example_proto, keys)
    image = tf.image.decode_jpeg(example['image/encoded'], channels=3)
    image = tf.cast(tf.reshape(image, [32, 32, 3]), tf.float32) / 127.5 - 1.
    return image, example['image/class/label']


train_files = tf.io.gfile.glob('data/shapes/train*.tfrecord')
val_files = tf.io.gfile.glob('data/shapes/val*.tfrecord')

train_ds = tf.data.TFRecordDataset(train_files).map(_parse).cache().shuffle(320).batch(BATCH_SIZE)
val_ds = tf.data.TFRecordDataset(val_files).map(_parse).batch(BATCH_SIZE)

model = tf.keras.Sequential([
    layers.Input((32, 32, 3)),
    layers.Conv2D(16, 3, strides=2), layers.LeakyReLU(),
    layers.Conv2D(32, 3, strides=2), layers.LeakyReLU(),
    layers.Flatten(),
    layers.Dropout(.3),
    layers.Dense(4),
])

loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.Adam(1e-3)

train_loss = tf.keras.metrics.Mean()
train_acc = tf.keras.metrics.SparseCategoricalAccuracy()
val_loss = tf.keras.metrics.Mean()
val_acc = tf.keras.metrics.SparseCategoricalAccuracy()


@tf.function
def train_step(images, labels):
    with tf.GradientTape() as tape:
        logits = model(images, training=True)
        loss = loss_object(labels, logits)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    train_loss.update_state(loss)
    train_acc.update_state(labels, logits)


@tf.function
def test_step(images, labels):
    logits = model(images, training=False)
    val_loss.update_state(loss_object(labels, logits))
    val_acc.update_state(labels, logits)


for epoch in range(EPOCHS):
    start = time.time()
    for m in (train_loss, train_acc, val_loss, val_acc):
        m.reset_state()

    for x, y in train_ds:
        train_step(x, y)
    for x, y in val_ds:
        test_step(x, y)

    print(f'Epoch {epoch + 1}: loss {train_loss.result():.4f} acc {train_acc.result():.3f} '
          f'val loss {val_loss.result():.4f} val acc {val_acc.result():.3f} ({time.time() - start:.1f}s)')
