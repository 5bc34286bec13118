"""
Title: Variational AutoEncoder on seven-segment digits
Description: Convolution-free VAE with a custom train_step.
"""
import keras
import tensorflow as tf
from keras import layers

LATENT = 4


def load(pattern):
    def parse(record):
        row = tf.io.parse_single_example(record, {"image_raw": tf.io.FixedLenFeature([], tf.string)})
        pixels = tf.io.decode_raw(row["image_raw"], tf.uint8)
        return tf.cast(tf.reshape(pixels, [784]), tf.float32) / 255.0

    return tf.data.TFRecordDataset(tf.io.gfile.glob(pattern)).map(parse)


"""
## Encoder and decoder
"""
enc_in = keras.Input((784,))
h = layers.Dense(64, activation="relu")(enc_in)
encoder = keras.Model(enc_in, [layers.Dense(LATENT)(h), layers.Dense(LATENT)(h)])
decoder = keras.Sequential(
    [keras.Input((LATENT,)), layers.Dense(64, activation="relu"), layers.Dense(784, activation="sigmoid")]
)

"""
## The model with its own train_step
"""


class VAE(keras.Model):
    def __init__(self, encoder, decoder, **kwargs):
        super().__init__(**kwargs)
        self.encoder, self.decoder = encoder, decoder
        self.rec_tracker = keras.metrics.Mean(name="reconstruction")
        self.kl_tracker = keras.metrics.Mean(name="kl")

    @property
    def metrics(self):
        return [self.rec_tracker, self.kl_tracker]

    def train_step(self, data):
        with tf.GradientTape() as tape:
            mean, log_var = self.encoder(data)
            z = mean + tf.exp(0.5 * log_var) * tf.random.normal(tf.shape(mean))
            out = self.decoder(z)
            rec = tf.reduce_mean(tf.reduce_sum(keras.losses.binary_crossentropy(data[..., None], out[..., None]), -1))
            kl = 0.5 * (1 + log_var - tf.square(mean) - tf.exp(log_var))
            kl = tf.reduce_mean(tf.reduce_sum(kl, 1))
            total = rec + kl
        grads = tape.gradient(total, self.trainable_weights)
        self.optimizer.apply_gradients(zip(grads, self.trainable_weights))
        self.rec_tracker.update_state(rec)
        self.kl_tracker.update_state(kl)
        return {m.name: m.result() for m in self.metrics}


vae = VAE(encoder, decoder)
vae.compile(optimizer=keras.optimizers.Adam(1e-3))
vae.fit(load("data/digits/train-*").shuffle(500).batch(25), epochs=5, verbose=2)
sample = decoder(tf.random.normal([4, LATENT])).numpy()
print("samples:", sample.mean().round(3), sample.std().round(3))
