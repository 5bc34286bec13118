import tensorflow as tf

strategy = tf.distribute.MirroredStrategy(["CPU:0"])
print("Number of devices: {}".format(strategy.num_replicas_in_sync))

BATCH_SIZE_PER_REPLICA = 50
GLOBAL_BATCH_SIZE = BATCH_SIZE_PER_REPLICA * strategy.num_replicas_in_sync
EPOCHS = 6


def parse(s):
    d = tf.io.parse_single_example(s, {
        "image_raw": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    x = tf.cast(tf.io.decode_raw(d["image_raw"], tf.uint8), tf.float32) / 255.0
    return tf.reshape(x, [784]), d["label"]


def make(pattern):
    return tf.data.TFRecordDataset(tf.io.gfile.glob(pattern)).map(parse)


train_dataset = make("data/digits/train-*").shuffle(500).batch(GLOBAL_BATCH_SIZE, drop_remainder=True)
test_dataset = make("data/digits/test-*").batch(GLOBAL_BATCH_SIZE)
train_dist_dataset = strategy.experimental_distribute_dataset(train_dataset)
test_dist_dataset = strategy.experimental_distribute_dataset(test_dataset)

with strategy.scope():
    loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model = tf.keras.Sequential([
        tf.keras.Input((784,)),
        tf.keras.layers.Dense(128, activation="relu"),
        tf.keras.layers.Dense(10),
    ])
    optimizer = tf.keras.optimizers.SGD(learning_rate=0.1)
    train_accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="train_accuracy")
    test_accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="test_accuracy")


def compute_loss(labels, predictions):
    per_example_loss = loss_object(labels, predictions)
    return tf.reduce_sum(per_example_loss) / GLOBAL_BATCH_SIZE


def train_step(inputs):
    images, labels = inputs
    with tf.GradientTape() as tape:
        predictions = model(images, training=True)
        loss = compute_loss(labels, predictions)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    train_accuracy.update_state(labels, predictions)
    return loss


def test_step(inputs):
    images, labels = inputs
    test_accuracy.update_state(labels, model(images, training=False))


@tf.function
def distributed_train_step(dataset_inputs):
    per_replica_losses = strategy.run(train_step, args=(dataset_inputs,))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica_losses, axis=None)


@tf.function
def distributed_test_step(dataset_inputs):
    strategy.run(test_step, args=(dataset_inputs,))


for epoch in range(EPOCHS):
    total_loss, num_batches = 0.0, 0
    for x in train_dist_dataset:
        total_loss += distributed_train_step(x)
        num_batches += 1
    for x in test_dist_dataset:
        distributed_test_step(x)
    print(f"Epoch {epoch + 1}, Loss: {total_loss / num_batches:.5f}, Accuracy: {train_accuracy.result() * 100:.2f}, "
          f"Test Accuracy: {test_accuracy.result() * 100:.2f}")
    train_accuracy.reset_state()
    test_accuracy.reset_state()
