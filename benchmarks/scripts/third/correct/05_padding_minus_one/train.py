import tensorflow as tf

from inputs import CLASSES, load


def main():
    model = tf.keras.Sequential(
        [
            tf.keras.Input((32, 32, 3)),
            tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(32, activation="relu"),
            tf.keras.layers.Dense(CLASSES),
        ]
    )
    model.compile(
        optimizer="adam",
        loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[tf.keras.metrics.BinaryAccuracy(threshold=0.0)],
    )
    model.fit(
        load("data/scenes/train.tfrecord", 20, True),
        validation_data=load("data/scenes/val.tfrecord", 20, False),
        epochs=5,
        verbose=2,
    )


if __name__ == "__main__":
    main()
