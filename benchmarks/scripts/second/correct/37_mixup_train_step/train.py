import tensorflow as tf
from tensorflow import keras


class MixupModel(keras.Model):
    """Functional model whose training step mixes each batch with its own permutation."""

    def __init__(self, *args, alpha=0.2, **kwargs):
        super().__init__(*args, **kwargs)
        self.alpha = alpha

    def train_step(self, data):
        x, y = data
        n = tf.shape(x)[0]
        g1 = tf.random.gamma([n], self.alpha)
        g2 = tf.random.gamma([n], self.alpha)
        lam = g1 / (g1 + g2 + 1e-7)              # Beta(alpha, alpha)
        order = tf.random.shuffle(tf.range(n))
        lx, ly = tf.reshape(lam, [-1, 1, 1, 1]), tf.reshape(lam, [-1, 1])
        x = lx * x + (1.0 - lx) * tf.gather(x, order)
        y = ly * y + (1.0 - ly) * tf.gather(y, order)
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(x=x, y=y, y_pred=y_pred)
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(grads, self.trainable_variables)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, y_pred)
        return {m.name: m.result() for m in self.metrics}


def parse(record):
    f = tf.io.parse_single_example(record, {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.cast(tf.io.decode_jpeg(f["image/encoded"], channels=3), tf.float32) / 255.0
    return tf.ensure_shape(image, [32, 32, 3]), tf.one_hot(f["image/class/label"], 4)


train = tf.data.TFRecordDataset(tf.io.gfile.glob("data/shapes/train-*")).map(parse).cache().shuffle(320).batch(32)
val = tf.data.TFRecordDataset(tf.io.gfile.glob("data/shapes/val-*")).map(parse).batch(40)

inputs = keras.Input((32, 32, 3))
h = keras.layers.Conv2D(16, 3, strides=2, activation="relu")(inputs)
h = keras.layers.Conv2D(32, 3, strides=2, activation="relu")(h)
h = keras.layers.Flatten()(h)
model = MixupModel(inputs, keras.layers.Dense(4, activation="softmax")(h), alpha=0.2)
model.compile(keras.optimizers.Adam(3e-3), "categorical_crossentropy", metrics=["categorical_accuracy"])
model.fit(train.prefetch(1), validation_data=val, epochs=5, verbose=2)
