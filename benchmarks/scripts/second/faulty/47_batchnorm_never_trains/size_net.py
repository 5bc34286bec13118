import keras
import tensorflow as tf
from keras import layers


class SizeNet(keras.Model):
    def __init__(self, num_classes):
        super().__init__()
        self.blocks = []
        for filters in (16, 32):
            self.blocks.append(layers.Conv2D(filters, 3, padding="same", use_bias=False))
            self.blocks.append(layers.BatchNormalization())
            self.blocks.append(layers.ReLU())
            self.blocks.append(layers.MaxPooling2D())
        self.gap = layers.GlobalAveragePooling2D()
        self.drop = layers.Dropout(0.3)
        self.fc = layers.Dense(num_classes)

    def call(self, x, training=None):
        for block in self.blocks:
            if isinstance(block, layers.BatchNormalization):
                x = block(x, training=training)
            else:
                x = block(x)
        return self.fc(self.drop(self.gap(x), training=training))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=False)
            loss = self.compute_loss(x=x, y=y, y_pred=y_pred)
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, y_pred)
        return {m.name: m.result() for m in self.metrics}


def parse(rec):
    e = tf.io.parse_single_example(rec, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.io.decode_jpeg(e["image"], channels=3)
    return tf.image.resize(image, (40, 40)) / 255.0, e["label"]


def load(path, training=False):
    ds = tf.data.TFRecordDataset(path).map(parse, num_parallel_calls=tf.data.AUTOTUNE).cache()
    if training:
        ds = ds.shuffle(200)
    return ds.batch(20).prefetch(tf.data.AUTOTUNE)


model = SizeNet(3)
model.compile(
    optimizer=keras.optimizers.Adam(2e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(load("data/sizes/train.tfrecord", True), validation_data=load("data/sizes/val.tfrecord"), epochs=3)
