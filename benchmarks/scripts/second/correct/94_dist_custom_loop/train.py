import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
GLOBAL_BATCH = 30 * strategy.num_replicas_in_sync


def parse(r):
    d = tf.io.parse_single_example(r, {"image": tf.io.FixedLenFeature([], tf.string),
                                       "label": tf.io.FixedLenFeature([], tf.int64)})
    im = tf.ensure_shape(tf.io.parse_tensor(d["image"], tf.uint8), [24, 24, 3])
    return tf.cast(im, tf.float32) / 255.0, d["label"]


train = tf.data.TFRecordDataset("data/tensors/train.tfrecord").map(parse).cache().shuffle(300).batch(GLOBAL_BATCH)
val = tf.data.TFRecordDataset("data/tensors/val.tfrecord").map(parse).batch(GLOBAL_BATCH)
train_dist = strategy.experimental_distribute_dataset(train)
val_dist = strategy.experimental_distribute_dataset(val)

with strategy.scope():
    model = tf.keras.Sequential([
        tf.keras.Input((24, 24, 3)),
        tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(32, activation="relu"),
        tf.keras.layers.Dense(3),
    ])
    optimizer = tf.keras.optimizers.Adam(2e-3)
    optimizer.build(model.trainable_variables)
    # no reduction here: the mean is taken over the global batch, not over the part of a replica
    loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    val_acc = tf.keras.metrics.SparseCategoricalAccuracy()


def train_step(inputs):
    images, labels = inputs
    with tf.GradientTape() as tape:
        per_example = loss_object(labels, model(images, training=True))
        loss = tf.nn.compute_average_loss(per_example, global_batch_size=GLOBAL_BATCH)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


@tf.function
def distributed_train_step(batch):
    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(train_step, args=(batch,)), axis=None)


@tf.function
def distributed_val_step(batch):
    def step(inputs):
        images, labels = inputs
        val_acc.update_state(labels, model(images, training=False))
    strategy.run(step, args=(batch,))


for epoch in range(4):
    total, n = 0.0, 0
    for batch in train_dist:
        total += float(distributed_train_step(batch))
        n += 1
    val_acc.reset_state()
    for batch in val_dist:
        distributed_val_step(batch)
    print(f"epoch {epoch + 1}: loss {total / n:.3f}, val accuracy {float(val_acc.result()):.3f}")
