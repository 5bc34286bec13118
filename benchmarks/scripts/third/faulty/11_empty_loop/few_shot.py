import tensorflow as tf

tf.keras.utils.set_random_seed(1)
BS = 32
N_EPOCH = 20


def parse(x):
    x = tf.io.parse_single_example(x, {"image": tf.io.FixedLenFeature([], tf.string),
                                       "label": tf.io.FixedLenFeature([], tf.int64)})
    im = tf.io.decode_jpeg(x["image"], channels=3)
    return tf.cast(tf.ensure_shape(im, [32, 32, 3]), tf.float32) / 255., tf.cast(x["label"], tf.float32)


train = tf.data.TFRecordDataset("data/tiny/train.tfrecord").map(parse).cache().shuffle(64).batch(BS, drop_remainder=True)
val = tf.data.TFRecordDataset("data/tiny/val.tfrecord").map(parse).batch(BS)

net = tf.keras.Sequential([
    tf.keras.layers.Input((32, 32, 3)),
    tf.keras.layers.AveragePooling2D(2),
    tf.keras.layers.Conv2D(8, 3, activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(1),
])
bce = tf.keras.losses.BinaryCrossentropy(from_logits=True)
opt = tf.keras.optimizers.Adam(1e-2)
mean_loss = tf.keras.metrics.Mean()


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = bce(y[:, None], net(x, training=True))
    g = tape.gradient(loss, net.trainable_variables)
    opt.apply_gradients(zip(g, net.trainable_variables))
    return loss


for epoch in range(N_EPOCH):
    mean_loss.reset_state()
    for x, y in train:
        mean_loss.update_state(step(x, y))
    if epoch % 5 == 4:
        print(f"[{epoch + 1:02d}] loss {mean_loss.result():.4f}")

acc = tf.keras.metrics.BinaryAccuracy(threshold=0.0)
for x, y in val:
    acc.update_state(y[:, None], net(x, training=False))
print("val acc", float(acc.result()))
