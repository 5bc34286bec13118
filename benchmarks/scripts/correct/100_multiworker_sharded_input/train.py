import tensorflow as tf

GLOBAL_BATCH = 32
TRAIN_RECORDS = 320


def parse(record):
    f = tf.io.parse_single_example(record, {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.image.convert_image_dtype(tf.io.decode_jpeg(f["image/encoded"], channels=3), tf.float32)
    return tf.ensure_shape(image, (32, 32, 3)), f["image/class/label"]


def train_input(context):
    files = tf.data.Dataset.list_files("data/shapes/train-*.tfrecord", seed=3)
    # shard the files, not the records, and before anything is shuffled
    files = files.shard(context.num_input_pipelines, context.input_pipeline_id)
    ds = files.interleave(tf.data.TFRecordDataset, cycle_length=4).shuffle(TRAIN_RECORDS).repeat()
    return ds.map(parse).batch(context.get_per_replica_batch_size(GLOBAL_BATCH)).prefetch(2)


def eval_input(context):
    ds = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob("data/shapes/val-*.tfrecord")))
    ds = ds.shard(context.num_input_pipelines, context.input_pipeline_id)
    return ds.map(parse).batch(context.get_per_replica_batch_size(GLOBAL_BATCH))


class Trainer:
    def __init__(self, strategy):
        self.strategy = strategy
        with strategy.scope():
            self.model = tf.keras.Sequential([
                tf.keras.Input((32, 32, 3)),
                tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
                tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
                tf.keras.layers.Flatten(),
                tf.keras.layers.Dense(4),
            ])
            self.optimizer = tf.keras.optimizers.Adam(1e-3 * strategy.num_replicas_in_sync)
            self.optimizer.build(self.model.trainable_variables)
            self.accuracy = tf.keras.metrics.SparseCategoricalAccuracy()

    def _step(self, images, labels):
        with tf.GradientTape() as tape:
            logits = self.model(images, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            loss = tf.reduce_sum(losses) / GLOBAL_BATCH      # summed over replicas afterwards
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss

    @tf.function
    def train_epoch(self, iterator, steps):
        total = 0.0
        for _ in tf.range(steps):
            per_replica = self.strategy.run(self._step, args=next(iterator))
            total += self.strategy.reduce("SUM", per_replica, axis=None)
        return total / tf.cast(steps, tf.float32)

    def evaluate(self, dataset):
        self.accuracy.reset_state()
        for images, labels in dataset:
            self.strategy.run(lambda x, y: self.accuracy.update_state(y, self.model(x)), args=(images, labels))
        return float(self.accuracy.result())


def main():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    train = strategy.distribute_datasets_from_function(train_input)
    evaluation = strategy.distribute_datasets_from_function(eval_input)
    trainer = Trainer(strategy)
    iterator = iter(train)
    steps = tf.constant(TRAIN_RECORDS // GLOBAL_BATCH)
    for epoch in range(5):
        loss = float(trainer.train_epoch(iterator, steps))
        print(f"epoch {epoch + 1} loss {loss:.4f} val accuracy {trainer.evaluate(evaluation):.3f}")


if __name__ == "__main__":
    main()
