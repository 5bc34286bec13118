import argparse
import glob

import tensorflow as tf


def parser_fn(record):
    features = tf.io.parse_single_example(record, features={
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64)})
    image = tf.image.decode_jpeg(features["image/encoded"], channels=3)
    image.set_shape((32, 32, 3))
    return tf.image.per_image_standardization(image), tf.cast(features["image/class/label"], tf.int32)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--train", default="data/shapes/train-*.tfrecord")
    ap.add_argument("--valid", default="data/shapes/val-*.tfrecord")
    ap.add_argument("--epochs", type=int, default=5)
    ap.add_argument("--batch-per-replica", type=int, default=32)
    args = ap.parse_args()

    strategy = tf.distribute.MirroredStrategy()
    global_batch = args.batch_per_replica * strategy.num_replicas_in_sync

    train = (tf.data.TFRecordDataset(glob.glob(args.train)).shuffle(320).map(parser_fn)
             .batch(global_batch, drop_remainder=True).prefetch(1))
    valid = tf.data.TFRecordDataset(glob.glob(args.valid)).map(parser_fn).batch(global_batch)
    train_dist = strategy.experimental_distribute_dataset(train)
    valid_dist = strategy.experimental_distribute_dataset(valid)

    with strategy.scope():
        model = tf.keras.Sequential([
            tf.keras.Input((32, 32, 3)),
            tf.keras.layers.Conv2D(12, 5, strides=2, activation="relu"),
            tf.keras.layers.Conv2D(24, 3, activation="relu"),
            tf.keras.layers.GlobalAveragePooling2D(),
            tf.keras.layers.Dense(4),
        ])
        optimizer = tf.keras.optimizers.Adam(5e-3)
        per_example = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
        train_accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
        valid_accuracy = tf.keras.metrics.SparseCategoricalAccuracy()

    def replica_step(inputs):
        images, labels = inputs
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            losses = per_example(labels, logits)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=global_batch)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        train_accuracy.update_state(labels, logits)
        return loss

    @tf.function
    def distributed_train_step(inputs):
        losses = strategy.run(replica_step, args=(inputs,))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    @tf.function
    def distributed_eval_step(inputs):
        def step(batch):
            valid_accuracy.update_state(batch[1], model(batch[0], training=False))
        strategy.run(step, args=(inputs,))

    for epoch in range(args.epochs):
        total, steps = 0.0, 0
        for batch in train_dist:
            total += distributed_train_step(batch)
            steps += 1
        for batch in valid_dist:
            distributed_eval_step(batch)
        print(f"epoch {epoch} loss {float(total) / steps:.4f} acc {float(train_accuracy.result()):.3f} "
              f"valid acc {float(valid_accuracy.result()):.3f}")
        train_accuracy.reset_state()
        valid_accuracy.reset_state()


if __name__ == "__main__":
    main()
