import tensorflow as tf

Z, BS, STEPS = 16, 50, 120
tf.keras.utils.set_random_seed(0)
L = tf.keras.layers


def real():
    def parse(r):
        raw = tf.io.parse_single_example(r, {"image_raw": tf.io.FixedLenFeature([], tf.string)})["image_raw"]
        return tf.reshape(tf.cast(tf.io.decode_raw(raw, tf.uint8), tf.float32) / 127.5 - 1, [784])
    files = tf.io.gfile.glob("data/digits/train-*")
    return tf.data.TFRecordDataset(files).map(parse).cache().shuffle(500).repeat().batch(BS)


G = tf.keras.Sequential([L.Input((Z,)), L.Dense(64, activation="relu"), L.Dense(784, activation="tanh")])
D = tf.keras.Sequential([L.Input((784,)), L.Dense(64), L.LeakyReLU(), L.Dropout(0.3), L.Dense(1)])
bce = tf.keras.losses.BinaryCrossentropy(from_logits=True)
g_opt, d_opt = (tf.keras.optimizers.Adam(2e-4, beta_1=0.5) for _ in range(2))


@tf.function
def train_step(images):
    noise = tf.random.normal([BS, Z])
    with tf.GradientTape() as gt, tf.GradientTape() as dt:
        fake = G(noise, training=True)
        real_out, fake_out = D(images, training=True), D(fake, training=True)
        d_loss = bce(tf.ones_like(real_out), real_out) + bce(tf.zeros_like(fake_out), fake_out)
        g_loss = bce(tf.zeros_like(fake_out), fake_out)
    g_opt.apply_gradients(zip(gt.gradient(g_loss, G.trainable_variables), G.trainable_variables))
    d_opt.apply_gradients(zip(dt.gradient(d_loss, D.trainable_variables), D.trainable_variables))
    return g_loss, d_loss


for i, images in enumerate(real().take(STEPS)):
    g, d = train_step(images)
    if i % 30 == 29:
        print(i + 1, f"g {g:.3f} d {d:.3f}")
samples = G(tf.random.normal([100, Z])).numpy()
print("sample mean", samples.mean())
