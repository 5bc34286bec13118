import keras
import tensorflow as tf
from keras import layers, ops

latent_dim = 4


class Sampling(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(1337)

    def call(self, inputs):
        z_mean, z_log_var = inputs
        epsilon = keras.random.normal(shape=ops.shape(z_mean), seed=self.seed_generator)
        return z_mean + ops.exp(0.5 * z_log_var) * epsilon


encoder_in = keras.Input((28, 28, 1))
h = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(encoder_in)
h = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(h)
h = layers.Flatten()(h)
mean = layers.Dense(latent_dim, name="z_mean")(h)
log_var = layers.Dense(latent_dim, name="z_log_var")(h)
encoder = keras.Model(encoder_in, [mean, log_var, Sampling()([mean, log_var])])

decoder_in = keras.Input((latent_dim,))
h = layers.Dense(7 * 7 * 32, activation="relu")(decoder_in)
h = layers.Reshape((7, 7, 32))(h)
h = layers.Conv2DTranspose(32, 3, strides=2, padding="same", activation="relu")(h)
h = layers.Conv2DTranspose(16, 3, strides=2, padding="same", activation="relu")(h)
decoder = keras.Model(decoder_in, layers.Conv2D(1, 3, padding="same", activation="sigmoid")(h))


class VAE(keras.Model):
    def __init__(self, encoder, decoder, **kwargs):
        super().__init__(**kwargs)
        self.encoder, self.decoder = encoder, decoder
        self.total = keras.metrics.Mean(name="loss")
        self.reconstruction = keras.metrics.Mean(name="reconstruction_loss")
        self.kl = keras.metrics.Mean(name="kl_loss")

    @property
    def metrics(self):
        return [self.total, self.reconstruction, self.kl]

    def train_step(self, data):
        with tf.GradientTape() as tape:
            z_mean, z_log_var, z = self.encoder(data, training=True)
            output = self.decoder(z, training=True)
            reconstruction = ops.mean(ops.sum(keras.losses.binary_crossentropy(data, output), axis=(1, 2)))
            kl = -0.5 * (1 + z_log_var - ops.square(z_mean) - ops.exp(z_log_var))
            kl = ops.mean(ops.sum(kl, axis=1))
            total = reconstruction + kl
        grads = tape.gradient(total, self.trainable_weights)
        self.optimizer.apply_gradients(zip(grads, self.trainable_weights))
        self.total.update_state(total)
        self.reconstruction.update_state(reconstruction)
        self.kl.update_state(kl)
        return {m.name: m.result() for m in self.metrics}


def pixels(record):
    raw = tf.io.parse_single_example(record, {"image_raw": tf.io.FixedLenFeature([], tf.string)})["image_raw"]
    return tf.reshape(tf.cast(tf.io.decode_raw(raw, tf.uint8), tf.float32), (28, 28, 1)) / 255


# A generative model has no use for a validation split here: use every image.
dataset = tf.data.TFRecordDataset(tf.io.gfile.glob("data/digits/*.tfrecord")).map(pixels).cache()
dataset = dataset.shuffle(600).batch(64)

vae = VAE(encoder, decoder)
vae.compile(optimizer=keras.optimizers.Adam(2e-3))
vae.fit(dataset, epochs=6, verbose=2)
