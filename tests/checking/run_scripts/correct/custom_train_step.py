# data: sensors_sorted
import keras
import tensorflow as tf
from keras import ops

PATHS = {"train": "gs://bucket/sensors/train-*.tfrecord", "val": "gs://bucket/sensors/val-*.tfrecord"}


class Classifier(keras.Model):
    def __init__(self, classes, **kwargs):
        super().__init__(**kwargs)
        self.hidden = keras.layers.Dense(32, activation="gelu")
        self.norm = keras.layers.LayerNormalization()
        self.head = keras.layers.Dense(classes)
        self.loss_tracker = keras.metrics.Mean(name="loss")

    def call(self, x, training=None):
        return self.head(self.norm(self.hidden(x)))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            logits = self(x, training=True)
            loss = ops.mean(keras.losses.sparse_categorical_crossentropy(y, logits, from_logits=True))
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}

    def test_step(self, data):
        x, y = data
        loss = ops.mean(keras.losses.sparse_categorical_crossentropy(y, self(x, training=False), from_logits=True))
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}

    @property
    def metrics(self):
        return [self.loss_tracker]


def load(split):
    spec = {"x": tf.io.FixedLenFeature([16], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)}
    ds = tf.data.TFRecordDataset(tf.io.gfile.glob(PATHS[split]))
    ds = ds.map(lambda r: tf.io.parse_single_example(r, spec))
    ds = ds.map(lambda row: (row["x"], row["label"]))
    return ds.shuffle(1000).batch(32) if split == "train" else ds.batch(32)


model = Classifier(5)
model.compile(optimizer=keras.optimizers.AdamW(2e-3))
model.fit(load("train"), validation_data=load("val"), epochs=8)
