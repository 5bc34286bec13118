import tensorflow as tf

from encoding import OUTPUTS, decode, encode


def load(pattern, shuffle=0):
    def parse(record):
        row = tf.io.parse_single_example(
            record, {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.string)}
        )
        image = tf.ensure_shape(tf.io.decode_png(row["image"], channels=3), (48, 48, 3))
        return tf.cast(image, tf.float32) / 255.0, encode(row["label"])

    ds = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(pattern))).map(parse).cache()
    return (ds.shuffle(shuffle) if shuffle else ds).batch(24)


def main():
    model = tf.keras.Sequential(
        [
            tf.keras.Input((48, 48, 3)),
            tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
            tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
            tf.keras.layers.GlobalMaxPooling2D(),
            tf.keras.layers.Dense(OUTPUTS, activation="softmax"),
        ]
    )
    model.compile(tf.keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    val = load("data/animals/val-*.tfrecord")
    model.fit(load("data/animals/train-*.tfrecord", shuffle=240), validation_data=val, epochs=5, verbose=2)
    image, label = next(iter(val))
    guess = decode(tf.argmax(model(image[:3]), -1))
    print([w.decode() for w in guess.numpy()], [w.decode() for w in decode(label[:3]).numpy()])


if __name__ == "__main__":
    main()
