import tensorflow as tf

# two virtual CPUs so that it can be tried on a laptop
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

BATCH_PER_REPLICA = 20
GLOBAL_BATCH = BATCH_PER_REPLICA * strategy.num_replicas_in_sync
EPOCHS = 2


def parse(rec):
    d = tf.io.parse_single_example(rec, {
        "features": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    return tf.reshape(tf.io.decode_raw(d["features"], tf.float32), [16]), d["label"]


train = tf.data.TFRecordDataset("data/vectors/train.tfrecord").map(parse).shuffle(400).batch(GLOBAL_BATCH, drop_remainder=True)
val = tf.data.TFRecordDataset("data/vectors/val.tfrecord").map(parse).batch(50)
dist_train = strategy.experimental_distribute_dataset(train)

with strategy.scope():
    model = tf.keras.Sequential([
        tf.keras.Input((16,)),
        tf.keras.layers.Dense(32, activation="relu"),
        tf.keras.layers.Dense(3),
    ])
    optimizer = tf.keras.optimizers.SGD(0.05)
    loss_obj = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)
    optimizer.build(model.trainable_variables)


def compute_loss(labels, logits):
    per_example = loss_obj(labels, logits)
    return tf.nn.compute_average_loss(per_example, global_batch_size=BATCH_PER_REPLICA)


def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = compute_loss(y, model(x, training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


@tf.function
def distributed_step(x, y):
    losses = strategy.run(train_step, args=(x, y))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


for epoch in range(EPOCHS):
    total, steps = 0.0, 0
    for x, y in dist_train:
        total += float(distributed_step(x, y))
        steps += 1
    acc = tf.keras.metrics.SparseCategoricalAccuracy()
    for x, y in val:
        acc.update_state(y, model(x, training=False))
    print(f"epoch {epoch}: loss {total / steps:.4f} val acc {float(acc.result()):.3f}")
