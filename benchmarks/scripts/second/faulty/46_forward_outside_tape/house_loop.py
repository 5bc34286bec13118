import argparse
import tensorflow as tf


def parse(rec):
    r = tf.io.parse_single_example(rec, {
        "x": tf.io.FixedLenFeature([8], tf.float32),
        "price": tf.io.FixedLenFeature([1], tf.float32),
    })
    return r["x"], r["price"] / 100000.0


def get(split, batch):
    ds = tf.data.TFRecordDataset("data/houses/%s.tfrecord" % split).map(parse)
    if split == "train":
        ds = ds.shuffle(500)
    return ds.batch(batch).prefetch(1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--batch", type=int, default=25)
    a = ap.parse_args()

    net = tf.keras.Sequential([
        tf.keras.Input((8,)),
        tf.keras.layers.Dense(32, activation="relu"),
        tf.keras.layers.Dense(1),
    ])
    mse = tf.keras.losses.MeanSquaredError()
    opt = tf.keras.optimizers.Adam(5e-3)
    running = tf.keras.metrics.Mean()
    mae = tf.keras.metrics.MeanAbsoluteError()

    train, val = get("train", a.batch), get("val", a.batch)
    for epoch in range(a.epochs):
        running.reset_state()
        for x, y in train:
            pred = net(x, training=True)
            with tf.GradientTape() as tape:
                loss = mse(y, pred)
            grads = tape.gradient(loss, net.trainable_variables)
            opt.apply_gradients(zip(grads, net.trainable_variables))
            running.update_state(loss)
        mae.reset_state()
        for x, y in val:
            mae.update_state(y, net(x, training=False))
        print(epoch, running.result().numpy(), mae.result().numpy())


if __name__ == "__main__":
    main()
