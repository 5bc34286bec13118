"""Written after the rules: a model with its own train_step."""

import glob

import tensorflow as tf
from tensorflow import keras

KEYS = {"image_raw": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.body = keras.Sequential(
            [keras.layers.Flatten(), keras.layers.Dense(32, "relu"), keras.layers.Dropout(0.2), keras.layers.Dense(10)]
        )
        self.objective = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def call(self, images, training=False):
        return self.body(images, training=training)

    def train_step(self, data):
        images, labels = data
        with tf.GradientTape() as tape:
            logits = self(images, training=True)
            loss = self.objective(labels, logits)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"loss": loss}


def decode(record):
    sample = tf.io.parse_single_example(record, KEYS)
    image = tf.io.decode_raw(sample["image_raw"], out_type=tf.uint8)
    image = tf.reshape(image, shape=[28, 28])
    return tf.math.divide(tf.cast(image, tf.float32), 255.0), sample["label"]


paths = sorted(glob.glob("digits/train-*.tfrecord.gz"))
dataset = tf.data.TFRecordDataset(paths, compression_type="GZIP", num_parallel_reads=2)
dataset = dataset.cache().shuffle(10_000).map(decode, num_parallel_calls=tf.data.AUTOTUNE)
dataset = dataset.batch(32).prefetch(tf.data.AUTOTUNE)
net = Net()
net.compile(optimizer=keras.optimizers.Adam(learning_rate=0.001))
net.fit(dataset, epochs=2)
