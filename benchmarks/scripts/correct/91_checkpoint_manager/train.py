import argparse
import itertools

import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--train-steps", type=int, default=60)
parser.add_argument("--eval-every", type=int, default=20)
parser.add_argument("--model-dir", default="./tf_ckpts")
args = parser.parse_args()


def _parse(buf):
    d = tf.io.parse_single_example(buf, {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.io.decode_and_crop_jpeg(d["image/encoded"], [2, 2, 28, 28], channels=3)
    return tf.cast(image, tf.float32) / 128.0 - 1.0, d["image/class/label"]


train_ds = tf.data.Dataset.list_files("data/shapes/train-*.tfrecord").repeat()
train_ds = train_ds.interleave(tf.data.TFRecordDataset, cycle_length=4)
train_ds = train_ds.shuffle(256).map(_parse).batch(32).prefetch(tf.data.AUTOTUNE)
eval_ds = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob("data/shapes/val-*.tfrecord"))).map(_parse).batch(40)

model = tf.keras.Sequential([
    tf.keras.Input((28, 28, 3)),
    tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
    tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(4),
])
optimizer = tf.keras.optimizers.Adam(2e-3)
step_counter = tf.Variable(0, dtype=tf.int64)
checkpoint = tf.train.Checkpoint(step=step_counter, optimizer=optimizer, model=model)
manager = tf.train.CheckpointManager(checkpoint, args.model_dir, max_to_keep=3)
checkpoint.restore(manager.latest_checkpoint)
print("Restored from", manager.latest_checkpoint or "nothing, starting from scratch")


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(y, model(x, training=True), from_logits=True))
    variables = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    step_counter.assign_add(1)
    return loss


recent = tf.keras.metrics.Mean()
for x, y in itertools.islice(train_ds, args.train_steps - int(step_counter)):
    recent.update_state(train_step(x, y))
    step = int(step_counter)
    if step % args.eval_every == 0:
        accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
        for ex, ey in eval_ds:
            accuracy.update_state(ey, model(ex, training=False))
        print(f"step {step}: loss {float(recent.result()):.4f} eval accuracy {float(accuracy.result()):.3f}",
              manager.save())
        recent.reset_state()
