# data: sensors
"""Goes on from the last checkpoint, and keeps three."""
import tensorflow as tf

SPEC = {"x": tf.io.FixedLenFeature([16], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)}


def parse(rows):
    row = tf.io.parse_example(rows, SPEC)
    return row["x"], row["label"]


train = tf.data.TFRecordDataset(tf.io.gfile.glob("sensors/train*")).shuffle(600).batch(32).map(parse)
model = tf.keras.Sequential([tf.keras.Input((16,)), tf.keras.layers.Dense(32, "relu"), tf.keras.layers.Dense(5)])
optimizer = tf.keras.optimizers.Adam(0.002)
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
mean, accuracy = tf.keras.metrics.Mean(), tf.keras.metrics.SparseCategoricalAccuracy()
checkpoint = tf.train.Checkpoint(epoch=tf.Variable(0), model=model, optimizer=optimizer)
manager = tf.train.CheckpointManager(checkpoint, directory="checkpoints", max_to_keep=3)
checkpoint.restore(save_path=manager.latest_checkpoint)

for epoch in range(int(checkpoint.epoch), 10):
    for metric in (mean, accuracy):
        metric.reset_state()
    for x, y in train:
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = loss_fn(y, logits)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        mean.update_state(loss)
        accuracy.update_state(y, logits)
    checkpoint.epoch.assign_add(1)
    print(manager.save(), float(mean.result()), float(accuracy.result()))
checkpoint.write(file_prefix="/tmp/bushel-nowhere/last")
