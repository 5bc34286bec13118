import tensorflow as tf
from tensorflow.keras import layers

NUM_CLASSES = 4


class Encoder(tf.keras.Model):
    def __init__(self, width=16):
        super().__init__()
        self.blocks = [
            layers.Conv2D(width, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2D(width * 2, 3, strides=2, padding="same", activation="relu"),
        ]
        self.pool = layers.GlobalAveragePooling2D()

    def call(self, x):
        for block in self.blocks:
            x = block(x)
        return self.pool(x)


class Head(tf.keras.Model):
    def __init__(self, classes):
        super().__init__()
        self.fc1 = layers.Dense(16, activation="relu")
        self.fc2 = layers.Dense(classes)

    def call(self, z):
        return self.fc2(self.fc1(z))


def decode(rec):
    f = tf.io.parse_single_example(rec, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.io.decode_jpeg(f["image"], channels=3)
    return tf.reshape(tf.cast(image, tf.float32) / 255.0, (32, 32, 3)), f["label"]


train = tf.data.TFRecordDataset("data/shapes_sorted/train.tfrecord").shuffle(320).map(decode).batch(32)
val = tf.data.TFRecordDataset("data/shapes_sorted/val.tfrecord").map(decode).batch(32)

encoder, head = Encoder(), Head(NUM_CLASSES)
optimizer = tf.keras.optimizers.Adam(1e-3)
xent = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(images, labels):
    with tf.GradientTape() as tape:
        logits = head(encoder(images, training=True), training=True)
        loss = xent(labels, logits)
    variables = encoder.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss


for epoch in range(6):
    for images, labels in train:
        loss = train_step(images, labels)
    acc = tf.keras.metrics.SparseCategoricalAccuracy()
    for images, labels in val:
        acc.update_state(labels, head(encoder(images)))
    print(epoch, float(loss), float(acc.result()))
