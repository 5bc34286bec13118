"""Adversarial training (FGSM): half of each batch is moved along the sign of the input gradient."""
import tensorflow as tf

tf.keras.utils.set_random_seed(0)
EPS = 0.3


def load(split):
    def parse(r):
        e = tf.io.parse_single_example(r, {'features': tf.io.FixedLenFeature([], tf.string),
                                           'label': tf.io.FixedLenFeature([], tf.int64)})
        return tf.ensure_shape(tf.io.decode_raw(e['features'], tf.float32), [16]), e['label']
    return tf.data.TFRecordDataset(f'data/vectors/{split}.tfrecord').map(parse).cache()


net = tf.keras.Sequential([tf.keras.Input((16,)), tf.keras.layers.Dense(32, activation='relu'), tf.keras.layers.Dense(3)])
xent = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
opt = tf.keras.optimizers.Adam(3e-3)


@tf.function
def attack(x, y):
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = xent(y, net(x, training=False))
    return x + EPS * tf.sign(tape.gradient(loss, x))


@tf.function
def step(x, y):
    half = tf.shape(x)[0] // 2
    x = tf.concat([attack(x[:half], y[:half]), x[half:]], 0)
    with tf.GradientTape() as tape:
        loss = xent(y, net(x, training=True))
    opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
    return loss


def accuracy(adversarial):
    m = tf.keras.metrics.SparseCategoricalAccuracy()
    for x, y in load('val').batch(50):
        m.update_state(y, net(attack(x, y) if adversarial else x, training=False))
    return float(m.result())


for epoch in range(8):
    for x, y in load('train').shuffle(400).batch(32):
        loss = step(x, y)
    print(epoch, f'loss {loss:.3f} clean {accuracy(False):.2f} attacked {accuracy(True):.2f}')
