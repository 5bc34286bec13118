"""Variational autoencoder on the digits."""
import keras
import tensorflow as tf
from keras import layers, ops

LATENT = 4


class Sampling(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(1337)

    def call(self, inputs):
        mean, log_var = inputs
        eps = keras.random.normal(ops.shape(mean), seed=self.seed_generator)
        return mean + ops.exp(0.5 * log_var) * eps


def make_encoder():
    inp = keras.Input((28, 28, 1))
    x = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(inp)
    x = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.Dense(16, activation="relu")(layers.Flatten()(x))
    mean, log_var = layers.Dense(LATENT)(x), layers.Dense(LATENT)(x)
    return keras.Model(inp, [mean, log_var, Sampling()([mean, log_var])])


def make_decoder():
    inp = keras.Input((LATENT,))
    x = layers.Reshape((7, 7, 16))(layers.Dense(7 * 7 * 16, activation="relu")(inp))
    x = layers.Conv2DTranspose(16, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.Conv2DTranspose(1, 3, strides=2, padding="same", activation="sigmoid")(x)
    return keras.Model(inp, x)


class VAE(keras.Model):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.total = keras.metrics.Mean(name="loss")
        self.rec = keras.metrics.Mean(name="reconstruction")
        self.kl = keras.metrics.Mean(name="kl")

    @property
    def metrics(self):
        return [self.total, self.rec, self.kl]

    def train_step(self, images):
        with tf.GradientTape() as tape:
            mean, log_var, z = self.encoder(images, training=True)
            out = self.decoder(z, training=True)
            rec = ops.mean(ops.sum(keras.losses.binary_crossentropy(images, out), axis=(1, 2)))
            kl = 0.5 * (1 + log_var - ops.square(mean) - ops.exp(log_var))
            kl = ops.mean(ops.sum(kl, axis=1))
            loss = rec + kl
        grads = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(grads, self.trainable_weights))
        self.total.update_state(loss)
        self.rec.update_state(rec)
        self.kl.update_state(kl)
        return {m.name: m.result() for m in self.metrics}


def parse(rec):
    d = tf.io.parse_single_example(rec, {"image_raw": tf.io.FixedLenFeature([], tf.string)})
    return tf.cast(tf.reshape(tf.io.decode_raw(d["image_raw"], tf.uint8), [28, 28, 1]), tf.float32) / 255.0


files = sorted(tf.io.gfile.glob("data/digits/train-*.tfrecord"))
train = tf.data.TFRecordDataset(files).map(parse).cache().shuffle(500).batch(50).prefetch(1)

vae = VAE(make_encoder(), make_decoder())
vae.compile(optimizer=keras.optimizers.Adam(1e-3))
vae.fit(train, epochs=3, verbose=2)
