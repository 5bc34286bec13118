import tensorflow as tf
from tensorflow import keras

EPSILON = 4 / 255


class Robust(keras.Model):
    """Half of each step's loss comes from pictures moved against the gradient sign."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            tape.watch(x)
            attack_loss = self.compute_loss(x=x, y=y, y_pred=self(x, training=False))
        x_adv = tf.clip_by_value(x + EPSILON * tf.sign(tape.gradient(attack_loss, x)), 0.0, 1.0)
        with tf.GradientTape() as tape:
            clean, adv = self(x, training=True), self(tf.stop_gradient(x_adv), training=True)
            loss = 0.5 * (self.compute_loss(y=y, y_pred=clean) + self.compute_loss(y=y, y_pred=adv))
        self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables))
        for m in self.metrics:
            m.update_state(loss) if m.name == "loss" else m.update_state(y, clean)
        return {m.name: m.result() for m in self.metrics}


def split(name):
    def parse(r):
        f = tf.io.parse_single_example(r, {"image/encoded": tf.io.FixedLenFeature([], tf.string),
                                           "image/class/label": tf.io.FixedLenFeature([], tf.int64)})
        im = tf.image.convert_image_dtype(tf.io.decode_jpeg(f["image/encoded"], channels=3), tf.float32)
        return tf.ensure_shape(im, (32, 32, 3)), f["image/class/label"]
    return tf.data.TFRecordDataset(tf.io.gfile.glob(f"data/shapes/{name}-*")).map(parse).cache()


i = keras.Input((32, 32, 3))
h = keras.layers.Conv2D(16, 3, strides=2, activation="relu")(i)
h = keras.layers.Conv2D(32, 3, strides=2, activation="relu")(h)
h = keras.layers.Flatten()(h)
model = Robust(i, keras.layers.Dense(4)(h))
ce = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(3e-3), loss=ce, metrics=["accuracy"])
model.fit(split("train").shuffle(320).batch(32), validation_data=split("val").batch(40), epochs=5, verbose=2)

hits = []
for x, y in split("test").batch(40):
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = ce(y, model(x, training=False))
    x_adv = tf.clip_by_value(x + EPSILON * tf.sign(tape.gradient(loss, x)), 0.0, 1.0)
    hits.append(tf.argmax(model(x_adv, training=False), -1) == y)
print("accuracy under attack:", float(tf.reduce_mean(tf.cast(tf.concat(hits, 0), tf.float32))))
