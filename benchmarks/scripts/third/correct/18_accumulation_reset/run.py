import tensorflow as tf

from accumulate import Accumulator

MEAN, SCALE = 380_000.0, 150_000.0


def load(path):
    def parse(record):
        row = tf.io.parse_single_example(
            record, {"x": tf.io.FixedLenFeature([8], tf.float32), "price": tf.io.FixedLenFeature([1], tf.float32)}
        )
        return row["x"], (row["price"] - MEAN) / SCALE

    return tf.data.TFRecordDataset(path).map(parse)


def main():
    model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.Adam(1e-2)
    optimizer.build(model.trainable_variables)
    accumulator = Accumulator(optimizer, model.trainable_variables, every=4)

    @tf.function
    def gradients(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        return loss, tape.gradient(loss, model.trainable_variables)

    for epoch in range(6):
        for x, y in load("data/houses/train.tfrecord").shuffle(500).batch(5):
            loss, grads = gradients(x, y)
            accumulator.add(grads)
        errors = [tf.abs(model(x) - y) for x, y in load("data/houses/val.tfrecord").batch(100)]
        print(f"epoch {epoch}: {float(loss):.4f}, error {float(tf.reduce_mean(errors)) * SCALE:,.0f}")


if __name__ == "__main__":
    main()
