import tensorflow as tf

BATCH = 50


def parse(r):
    d = tf.io.parse_single_example(r, {
        "x": tf.io.FixedLenFeature([8], tf.float32),
        "price": tf.io.FixedLenFeature([], tf.float32),
    })
    return d["x"], (d["price"] - 380000.0) / 130000.0


train = tf.data.TFRecordDataset("data/houses/train.tfrecord").map(parse).shuffle(500).batch(BATCH)
val = tf.data.TFRecordDataset("data/houses/val.tfrecord").map(parse).batch(BATCH)

net = tf.keras.Sequential([
    tf.keras.Input((8,)),
    tf.keras.layers.Dense(32, activation="relu"),
    tf.keras.layers.Dense(1),
])
opt = tf.keras.optimizers.Adam(1e-2)


def mse(y, y_hat):
    return tf.reduce_mean(tf.square(y - y_hat))


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = mse(y, net(x, training=True))
    grads = tape.gradient(loss, net.trainable_variables)
    opt.apply_gradients(zip(grads, net.trainable_variables))
    return loss


for epoch in range(8):
    total = 0.0
    for i, (x, y) in enumerate(train):
        total += train_step(x, y)
    err = tf.concat([tf.abs(y - net(x)[:, 0]) for x, y in val], axis=0)
    print(f"epoch {epoch}: train mse {total / (i + 1):.4f}, val mae {tf.reduce_mean(err):.4f}")
