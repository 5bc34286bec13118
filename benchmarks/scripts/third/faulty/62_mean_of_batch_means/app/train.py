import tensorflow as tf

from evaluation import accuracy

BATCH = 32


def read(path):
    def parse(record):
        row = tf.io.parse_single_example(
            record,
            {"features": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)},
        )
        return tf.ensure_shape(tf.io.decode_raw(row["features"], tf.float32), [16])[:3], row["label"]

    return tf.data.TFRecordDataset(path).map(parse)


def main():
    tf.keras.utils.set_random_seed(2)
    train = read("data/vectors/train.tfrecord").shuffle(400).batch(BATCH)
    val = read("data/vectors/val.tfrecord").batch(BATCH)
    model = tf.keras.Sequential([tf.keras.layers.Input((3,)), tf.keras.layers.Dense(8, "tanh"), tf.keras.layers.Dense(3)])
    loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = tf.keras.optimizers.Adam(0.01)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x, training=True))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    for epoch in range(6):
        for x, y in train:
            loss = step(x, y)
        print(f"epoch {epoch} loss {loss:.3f} val accuracy {accuracy(model, val):.4f}")


if __name__ == "__main__":
    main()
