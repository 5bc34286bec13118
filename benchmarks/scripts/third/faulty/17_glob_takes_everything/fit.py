import logging

import tensorflow as tf

from io_utils import dataset, shards

logging.basicConfig(level=logging.INFO)
log = logging.getLogger(__name__)
ROOT = "data/shapes"


def network() -> tf.keras.Model:
    return tf.keras.Sequential(
        [
            tf.keras.layers.Input((32, 32, 3), dtype="uint8"),
            tf.keras.layers.Rescaling(1 / 255),
            tf.keras.layers.Conv2D(16, 3, activation="relu"),
            tf.keras.layers.MaxPooling2D(3),
            tf.keras.layers.Conv2D(32, 3, activation="relu"),
            tf.keras.layers.GlobalMaxPooling2D(),
            tf.keras.layers.Dense(4),
        ]
    )


def main() -> None:
    train_files = shards(ROOT, "*-of-*.tfrecord")
    val_files = shards(ROOT, "val-*-of-*.tfrecord")
    test_files = shards(ROOT, "test-*-of-*.tfrecord")
    log.info("%d / %d / %d shards", len(train_files), len(val_files), len(test_files))
    model = network()
    model.compile(
        optimizer="adam",
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(dataset(train_files, 32, True), validation_data=dataset(val_files, 32, False), epochs=4, verbose=2)
    log.info("test %s", model.evaluate(dataset(test_files, 32, False), verbose=0))


if __name__ == "__main__":
    main()
