"""DCGAN on seven-segment digits."""
import time

import tensorflow as tf
from tensorflow.keras import layers

BATCH_SIZE = 50
NOISE_DIM = 32
EPOCHS = 4


def parse(r):
    ex = tf.io.parse_single_example(r, {"image_raw": tf.io.FixedLenFeature([], tf.string)})
    img = tf.reshape(tf.io.decode_raw(ex["image_raw"], tf.uint8), [28, 28, 1])
    return (tf.cast(img, tf.float32) - 127.5) / 127.5     # [-1, 1], as the generator ends in tanh


train_dataset = (
    tf.data.Dataset.list_files("data/digits/train-*.tfrecord")
    .flat_map(tf.data.TFRecordDataset)
    .map(parse)
    .shuffle(500)
    .batch(BATCH_SIZE, drop_remainder=True)
)

generator = tf.keras.Sequential([
    layers.Input((NOISE_DIM,)),
    layers.Dense(7 * 7 * 32, use_bias=False),
    layers.BatchNormalization(),
    layers.LeakyReLU(),
    layers.Reshape((7, 7, 32)),
    layers.Conv2DTranspose(16, 5, strides=2, padding="same", use_bias=False),
    layers.BatchNormalization(),
    layers.LeakyReLU(),
    layers.Conv2DTranspose(1, 5, strides=2, padding="same", activation="tanh"),
])
discriminator = tf.keras.Sequential([
    layers.Input((28, 28, 1)),
    layers.Conv2D(16, 5, strides=2, padding="same"),
    layers.LeakyReLU(),
    layers.Dropout(0.3),
    layers.Conv2D(32, 5, strides=2, padding="same"),
    layers.LeakyReLU(),
    layers.Dropout(0.3),
    layers.Flatten(),
    layers.Dense(1),
])

cross_entropy = tf.keras.losses.BinaryCrossentropy(from_logits=True)
g_opt = tf.keras.optimizers.Adam(1e-3, beta_1=0.5)
d_opt = tf.keras.optimizers.Adam(3e-4, beta_1=0.5)


@tf.function
def train_step(images):
    noise = tf.random.normal([BATCH_SIZE, NOISE_DIM])
    with tf.GradientTape() as g_tape, tf.GradientTape() as d_tape:
        fake = generator(noise, training=True)
        real_out = discriminator(images, training=True)
        fake_out = discriminator(fake, training=True)
        g_loss = cross_entropy(tf.ones_like(fake_out), fake_out)
        d_loss = cross_entropy(tf.ones_like(real_out), real_out) + cross_entropy(tf.zeros_like(fake_out), fake_out)
    g_opt.apply_gradients(zip(g_tape.gradient(g_loss, generator.trainable_variables), generator.trainable_variables))
    d_opt.apply_gradients(
        zip(d_tape.gradient(d_loss, discriminator.trainable_variables), discriminator.trainable_variables)
    )
    return g_loss, d_loss


for epoch in range(EPOCHS):
    start = time.time()
    for batch in train_dataset:
        g_loss, d_loss = train_step(batch)
    print(f"epoch {epoch + 1}  G {g_loss:.3f}  D {d_loss:.3f}  {time.time() - start:.1f} s")

samples = generator(tf.random.normal([16, NOISE_DIM]), training=False)
pixels = tf.cast(tf.clip_by_value(samples * 127.5 + 127.5, 0, 255), tf.uint8)
print(pixels.shape, pixels.dtype)
