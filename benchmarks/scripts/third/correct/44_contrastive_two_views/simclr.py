"""SimCLR in small: two random views per picture, NT-Xent; linear probe with labels afterwards."""
import tensorflow as tf

tf.keras.utils.set_random_seed(1)
L, BS, TEMP = tf.keras.layers, 64, 0.2
SPEC = {"image/encoded": tf.io.FixedLenFeature([], tf.string), "image/class/label": tf.io.FixedLenFeature([], tf.int64)}


def parse(r):
    e = tf.io.parse_single_example(r, SPEC)
    x = tf.ensure_shape(tf.io.decode_jpeg(e["image/encoded"], channels=3), [32, 32, 3])
    return tf.cast(x, tf.float32) / 255.0, e["image/class/label"]


def load(split):
    return tf.data.TFRecordDataset(tf.io.gfile.glob(f"data/shapes/{split}-*")).map(parse).cache()


def view(x):
    x = tf.image.random_crop(x, [28, 28, 3])
    x = tf.image.random_flip_left_right(x)
    x = tf.image.random_brightness(x, 0.2)
    return tf.image.resize(x, [32, 32])


encoder = tf.keras.Sequential([L.Input((32, 32, 3)), L.Conv2D(16, 5, 2, activation="relu"),
                               L.Conv2D(32, 3, 2, activation="relu"), L.GlobalMaxPooling2D()])
projector = tf.keras.Sequential([L.Input((32,)), L.Dense(32, activation="relu"), L.Dense(16)])
opt = tf.keras.optimizers.Adam(2e-3)


@tf.function
def step(a, b):
    with tf.GradientTape() as tape:
        za = tf.math.l2_normalize(projector(encoder(a, training=True)), 1)
        zb = tf.math.l2_normalize(projector(encoder(b, training=True)), 1)
        logits = tf.matmul(za, zb, transpose_b=True) / TEMP
        labels = tf.range(tf.shape(za)[0])  # the other view of the same picture sits on the diagonal
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
                              + tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.transpose(logits))) / 2
    params = encoder.trainable_variables + projector.trainable_variables
    opt.apply_gradients(zip(tape.gradient(loss, params), params))
    return loss


pairs = load("train").map(lambda x, y: (view(x), view(x))).shuffle(320).batch(BS, drop_remainder=True)
for epoch in range(4):
    losses = [float(step(a, b)) for a, b in pairs]
    print(epoch, sum(losses) / len(losses))

# features are computed once: the encoder does not change any more
feats = {s: [(encoder(x), y) for x, y in load(s).batch(80)] for s in ("train", "val")}
stacked = {s: [tf.concat(v, 0) for v in zip(*b)] for s, b in feats.items()}
probe = tf.keras.Sequential([L.Input((32,)), L.Dense(4)])
probe.compile(tf.keras.optimizers.Adam(1e-2), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
probe.fit(*stacked["train"], epochs=5, batch_size=32, verbose=0)
print("probe", probe.evaluate(*stacked["val"], verbose=0))
