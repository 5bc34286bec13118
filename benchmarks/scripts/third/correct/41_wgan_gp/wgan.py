"""WGAN-GP on the segment digits. Several critic steps per generator step, labels unused."""
import tensorflow as tf

Z, BS, N_CRITIC, ITER = 16, 50, 3, 25
tf.keras.utils.set_random_seed(0)
L = tf.keras.layers


def stream():
    def parse(r):
        raw = tf.io.parse_single_example(r, {'image_raw': tf.io.FixedLenFeature([], tf.string)})['image_raw']
        return tf.reshape(tf.cast(tf.io.decode_raw(raw, tf.uint8), tf.float32) / 127.5 - 1, [784])
    ds = tf.data.TFRecordDataset(tf.io.gfile.glob('data/digits/train-*')).map(parse).cache()
    return iter(ds.shuffle(500).repeat().batch(BS))


G = tf.keras.Sequential([L.Input((Z,)), L.Dense(64, activation='relu'), L.Dense(784, activation='tanh')])
C = tf.keras.Sequential([L.Input((784,)), L.Dense(64, activation='relu'), L.Dense(1)])
g_opt = tf.keras.optimizers.Adam(5e-4, beta_1=0.0, beta_2=0.9)
c_opt = tf.keras.optimizers.Adam(5e-4, beta_1=0.0, beta_2=0.9)


@tf.function
def critic_step(real):
    fake = G(tf.random.normal([BS, Z]))
    mix = tf.random.uniform([BS, 1])
    between = mix * real + (1 - mix) * fake
    with tf.GradientTape() as tape:
        with tf.GradientTape() as inner:
            inner.watch(between)
            score = C(between, training=True)
        norm = tf.norm(inner.gradient(score, between), axis=1)
        distance = tf.reduce_mean(C(real, training=True)) - tf.reduce_mean(C(fake, training=True))
        loss = -distance + 10.0 * tf.reduce_mean(tf.square(norm - 1.0))
    c_opt.apply_gradients(zip(tape.gradient(loss, C.trainable_variables), C.trainable_variables))
    return distance


@tf.function
def generator_step():
    with tf.GradientTape() as tape:
        loss = -tf.reduce_mean(C(G(tf.random.normal([BS, Z]), training=True)))
    g_opt.apply_gradients(zip(tape.gradient(loss, G.trainable_variables), G.trainable_variables))


real = stream()
for i in range(ITER):
    for _ in range(N_CRITIC):
        d = critic_step(next(real))
    generator_step()
    if i % 5 == 4:
        print(i + 1, 'distance', float(d))
