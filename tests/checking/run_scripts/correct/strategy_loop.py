# data: sensors
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration(), tf.config.LogicalDeviceConfiguration()]
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
GLOBAL_BATCH = 32 * strategy.num_replicas_in_sync
SPEC = {"x": tf.io.FixedLenFeature([16], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)}

def prepare(rows):
    row = tf.io.parse_example(rows, SPEC)
    return row["x"], row["label"]

train = tf.data.TFRecordDataset(tf.io.gfile.glob("sensors/train*")).shuffle(600).batch(GLOBAL_BATCH, drop_remainder=True).map(prepare)
dist = strategy.experimental_distribute_dataset(train)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((16,)), tf.keras.layers.Dense(32, activation="relu"), tf.keras.layers.Dense(5)])
    optimizer = tf.keras.optimizers.SGD(0.05)
    loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

def step_fn(inputs):
    x, y = inputs
    with tf.GradientTape() as tape:
        loss = tf.nn.compute_average_loss(loss_object(y, model(x, training=True)), global_batch_size=GLOBAL_BATCH)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss

@tf.function
def train_step(batch):
    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(step_fn, args=(batch,)), axis=None)

steps = 0
for epoch in range(20):
    for batch in dist:
        loss = train_step(batch)
        steps += 1
    tf.print("epoch", epoch, "loss", loss)
assert steps > 0
