import glob
import time

import tensorflow as tf

EPOCHS = 4
BATCH_SIZE = 25

loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.Adam()
train_loss = tf.keras.metrics.Mean(name="train_loss")
train_accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="train_accuracy")
test_accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="test_accuracy")


def parse(proto):
    f = tf.io.parse_single_example(proto, {
        "image_raw": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    img = tf.io.decode_raw(f["image_raw"], tf.uint8)
    img = tf.reshape(img // 255, [28, 28, 1])
    return tf.cast(img, tf.float32), f["label"]


train_ds = tf.data.TFRecordDataset(glob.glob("data/digits/train-*")).map(parse).shuffle(500).batch(BATCH_SIZE)
test_ds = tf.data.TFRecordDataset(glob.glob("data/digits/test-*")).map(parse).batch(BATCH_SIZE)


class MyModel(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.conv1 = tf.keras.layers.Conv2D(32, 3, activation="relu")
        self.flatten = tf.keras.layers.Flatten()
        self.d1 = tf.keras.layers.Dense(64, activation="relu")
        self.d2 = tf.keras.layers.Dense(10)

    def call(self, x):
        return self.d2(self.d1(self.flatten(self.conv1(x))))


model = MyModel()


@tf.function
def train_step(images, labels):
    with tf.GradientTape() as tape:
        predictions = model(images, training=True)
        loss = loss_object(labels, predictions)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    train_loss(loss)
    train_accuracy(labels, predictions)


@tf.function
def test_step(images, labels):
    test_accuracy(labels, model(images, training=False))


for epoch in range(EPOCHS):
    start = time.time()
    for m in (train_loss, train_accuracy, test_accuracy):
        m.reset_state()
    for images, labels in train_ds:
        train_step(images, labels)
    for images, labels in test_ds:
        test_step(images, labels)
    print(f"Epoch {epoch + 1}, loss {train_loss.result():.4f}, acc {train_accuracy.result() * 100:.1f}, "
          f"test acc {test_accuracy.result() * 100:.1f}, {time.time() - start:.1f}s")
