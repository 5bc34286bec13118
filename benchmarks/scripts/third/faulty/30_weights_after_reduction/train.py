import tensorflow as tf

from dataset import load

model = tf.keras.Sequential(
    [
        tf.keras.layers.Input((32, 32, 3)),
        tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        tf.keras.layers.GlobalMaxPooling2D(),
        tf.keras.layers.Dense(1, activation="sigmoid"),
    ]
)
loss_fn = tf.keras.losses.BinaryCrossentropy()
optimizer = tf.keras.optimizers.Adam(2e-3)


@tf.function
def train_step(images, targets, weights):
    with tf.GradientTape() as tape:
        probs = model(images, training=True)
        loss = tf.reduce_mean(loss_fn(targets, probs) * weights)
    grads = tape.gradient(loss, model.trainable_weights)
    optimizer.apply_gradients(zip(grads, model.trainable_weights))
    return loss


def evaluate(ds):
    recall, precision = tf.keras.metrics.Recall(), tf.keras.metrics.Precision()
    for images, targets, _ in ds:
        probs = model(images, training=False)
        recall.update_state(targets, probs)
        precision.update_state(targets, probs)
    return float(recall.result()), float(precision.result())


def main(epochs=8):
    train = load("data/cats_dogs/train.tfrecord", 30, training=True)
    val = load("data/cats_dogs/val.tfrecord", 40)
    for epoch in range(epochs):
        running = tf.keras.metrics.Mean()
        for batch in train:
            running.update_state(train_step(*batch))
        print(f"epoch {epoch}: loss {running.result():.4f} recall/precision {evaluate(val)}")


if __name__ == "__main__":
    main()
