"""Large effective batch on a small machine: accumulate gradients over a few micro batches."""
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

MICRO_BATCH = 10
ACCUM = 5


def make_ds(pattern, training):
    def parse(rec):
        e = tf.io.parse_single_example(rec, {
            "image": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64),
        })
        img = tf.image.resize(tf.io.decode_jpeg(e["image"], channels=3), [32, 32])
        return img / 255.0, e["label"] - 1

    ds = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(pattern))).map(parse).cache()
    if training:
        ds = ds.shuffle(250)
    return ds.batch(MICRO_BATCH, drop_remainder=training).prefetch(2)


class AccumTrainer:
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer
        self.loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.buffers = [tf.Variable(tf.zeros(v.shape), trainable=False) for v in model.trainable_variables]
        self.mean_loss = keras.metrics.Mean()

    @tf.function
    def micro_step(self, x, y):
        with tf.GradientTape() as tape:
            loss = self.loss_fn(y, self.model(x, training=True))
        grads = tape.gradient(loss, self.model.trainable_variables)
        for buf, g in zip(self.buffers, grads):
            buf.assign_add(g / ACCUM)
        self.mean_loss.update_state(loss)

    @tf.function
    def apply(self):
        grads = [tf.identity(buf) for buf in self.buffers]
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))

    def fit(self, train, val, epochs):
        acc = keras.metrics.SparseCategoricalAccuracy()
        for epoch in range(epochs):
            self.mean_loss.reset_state()
            for i, (x, y) in enumerate(train, 1):
                self.micro_step(x, y)
                if i % ACCUM == 0:
                    self.apply()
            acc.reset_state()
            for x, y in val:
                acc.update_state(y, self.model(x, training=False))
            print(f"{epoch}: loss {float(self.mean_loss.result()):.3f} val acc {float(acc.result()):.3f}")


net = keras.Sequential([
    keras.Input((32, 32, 3)),
    layers.Conv2D(16, 3, activation="relu"), layers.MaxPooling2D(),
    layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(),
    layers.Flatten(), layers.Dense(5),
])
trainer = AccumTrainer(net, keras.optimizers.SGD(0.05, momentum=0.9))
trainer.fit(make_ds("data/flowers/train-*", True), make_ds("data/flowers/val-*", False), epochs=4)
