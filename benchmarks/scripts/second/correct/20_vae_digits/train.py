import os
os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import tensorflow as tf
from keras import layers, ops

latent_dim = 4


class Sampling(layers.Layer):
    """Uses (z_mean, z_log_var) to draw z."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(1337)

    def call(self, inputs):
        z_mean, z_log_var = inputs
        epsilon = keras.random.normal(shape=ops.shape(z_mean), seed=self.seed_generator)
        return z_mean + ops.exp(0.5 * z_log_var) * epsilon


enc_in = keras.Input((28, 28, 1))
h = layers.Flatten()(enc_in)
h = layers.Dense(128, activation="relu")(h)
z_mean = layers.Dense(latent_dim, name="z_mean")(h)
z_log_var = layers.Dense(latent_dim, name="z_log_var")(h)
encoder = keras.Model(enc_in, [z_mean, z_log_var, Sampling()([z_mean, z_log_var])])

dec_in = keras.Input((latent_dim,))
h = layers.Dense(128, activation="relu")(dec_in)
h = layers.Dense(28 * 28)(h)
decoder = keras.Model(dec_in, layers.Reshape((28, 28, 1))(h))     # logits


class VAE(keras.Model):
    def __init__(self, encoder, decoder, beta=1.0, **kwargs):
        super().__init__(**kwargs)
        self.encoder, self.decoder, self.beta = encoder, decoder, beta
        self.total = keras.metrics.Mean(name="loss")
        self.rec = keras.metrics.Mean(name="reconstruction")
        self.kl = keras.metrics.Mean(name="kl")

    @property
    def metrics(self):
        return [self.total, self.rec, self.kl]

    def train_step(self, data):
        with tf.GradientTape() as tape:
            mean, log_var, z = self.encoder(data, training=True)
            logits = self.decoder(z, training=True)
            bce = tf.nn.sigmoid_cross_entropy_with_logits(labels=data, logits=logits)
            rec = tf.reduce_mean(tf.reduce_sum(bce, axis=(1, 2, 3)))
            kl = -0.5 * (1 + log_var - tf.square(mean) - tf.exp(log_var))
            kl = tf.reduce_mean(tf.reduce_sum(kl, axis=1))
            loss = rec + self.beta * kl
        grads = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(grads, self.trainable_weights))
        self.total.update_state(loss)
        self.rec.update_state(rec)
        self.kl.update_state(kl)
        return {m.name: m.result() for m in self.metrics}


def parse(x):
    x = tf.io.parse_single_example(x, {"image_raw": tf.io.FixedLenFeature([], tf.string)})
    return tf.reshape(tf.cast(tf.io.decode_raw(x["image_raw"], tf.uint8), tf.float32) / 255.0, (28, 28, 1))


ds = tf.data.TFRecordDataset(tf.io.gfile.glob("data/digits/train-*")).map(parse).shuffle(500).batch(50)
vae = VAE(encoder, decoder)
vae.compile(optimizer=keras.optimizers.Adam(3e-3))
vae.fit(ds, epochs=6, verbose=2)

samples = ops.sigmoid(decoder.predict(keras.random.normal((4, latent_dim)), verbose=0))
print("samples", samples.shape, float(ops.min(samples)), float(ops.max(samples)))
