"""Trains in two calls; the second one restores the latest checkpoint and goes on."""
import tempfile

import tensorflow as tf

TOTAL_EPOCHS = 4


def dataset(name, training):
    def parse(x):
        x = tf.io.parse_single_example(
            x, {"features": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)})
        return tf.ensure_shape(tf.io.decode_raw(x["features"], tf.float32), [16]), x["label"]

    ds = tf.data.TFRecordDataset(f"data/vectors/{name}.tfrecord").map(parse)
    return (ds.shuffle(400) if training else ds).batch(20)


def train(directory, until):
    model = tf.keras.Sequential([tf.keras.Input((16,)), tf.keras.layers.Dense(24, "relu"), tf.keras.layers.Dense(3)])
    opt = tf.keras.optimizers.SGD(0.05, momentum=0.9)
    opt.build(model.trainable_variables)
    epoch = tf.Variable(0, dtype=tf.int64)
    ckpt = tf.train.Checkpoint(model=model, optimizer=opt, epoch=epoch)
    manager = tf.train.CheckpointManager(ckpt, directory, max_to_keep=2)
    if manager.latest_checkpoint:
        ckpt.restore(manager.latest_checkpoint).assert_existing_objects_matched()
        print("restored", manager.latest_checkpoint.split("/")[-1], "epoch", int(epoch))

    loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x, training=True))
        grads = tape.gradient(loss, model.trainable_variables)
        grads, _ = tf.clip_by_global_norm(grads, 5.0)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    while int(epoch) < until:
        mean = tf.keras.metrics.Mean()
        for x, y in dataset("train", True):
            mean.update_state(step(x, y))
        epoch.assign_add(1)
        manager.save(checkpoint_number=int(epoch))
        hits = [tf.argmax(model(x, training=False), 1) == y for x, y in dataset("val", False)]
        acc = tf.reduce_mean(tf.cast(tf.concat(hits, 0), tf.float32))
        print(f"epoch {int(epoch)} loss {float(mean.result()):.4f} val {float(acc):.3f}")


with tempfile.TemporaryDirectory() as directory:
    train(directory, until=2)
    train(directory, until=TOTAL_EPOCHS)
