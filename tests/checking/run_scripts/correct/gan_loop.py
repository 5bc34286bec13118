# data: digits
import tensorflow as tf
from tensorflow.keras import layers

BUFFER_SIZE, BATCH_SIZE, noise_dim = 600, 32, 16

def load(rec):
    img = tf.io.parse_single_example(rec, {"image": tf.io.FixedLenFeature([], tf.string)})["image"]
    img = tf.cast(tf.io.decode_png(img, channels=1), tf.float32)
    img = (img - 127.5) / 127.5
    return tf.ensure_shape(img, (32, 32, 1))

ds = tf.data.TFRecordDataset(tf.io.gfile.glob("digits/train*")).map(load).shuffle(BUFFER_SIZE).batch(BATCH_SIZE, drop_remainder=True)
G = tf.keras.Sequential([layers.Input((noise_dim,)), layers.Dense(8 * 8 * 8), layers.BatchNormalization(), layers.LeakyReLU(), layers.Reshape((8, 8, 8)), layers.Conv2DTranspose(8, 5, strides=2, padding="same", activation="relu"), layers.Conv2DTranspose(1, 5, strides=2, padding="same", activation="tanh")])
D = tf.keras.Sequential([layers.Input((32, 32, 1)), layers.Conv2D(8, 5, strides=2, padding="same"), layers.LeakyReLU(), layers.Dropout(0.3), layers.Flatten(), layers.Dense(1)])
bce = tf.keras.losses.BinaryCrossentropy(from_logits=True)
g_opt, d_opt = tf.keras.optimizers.Adam(1e-4), tf.keras.optimizers.Adam(1e-4)

@tf.function
def train_step(images):
    noise = tf.random.normal([BATCH_SIZE, noise_dim])
    with tf.GradientTape() as gt, tf.GradientTape() as dt:
        fake = G(noise, training=True)
        real_out, fake_out = D(images, training=True), D(fake, training=True)
        g_loss = bce(tf.ones_like(fake_out), fake_out)
        d_loss = bce(tf.ones_like(real_out), real_out) + bce(tf.zeros_like(fake_out), fake_out)
    g_opt.apply_gradients(zip(gt.gradient(g_loss, G.trainable_variables), G.trainable_variables))
    d_opt.apply_gradients(zip(dt.gradient(d_loss, D.trainable_variables), D.trainable_variables))
    return g_loss, d_loss

for epoch in range(20):
    for batch in ds:
        gl, dl = train_step(batch)
    print(epoch, float(gl), float(dl))
    sample = G(tf.random.normal([4, noise_dim]), training=False)
