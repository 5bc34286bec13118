import argparse

import tensorflow as tf
from tensorflow.keras import Input, Model
from tensorflow.keras.layers import BatchNormalization, Conv2D, Dense, Dropout, Flatten, MaxPooling2D, ReLU


def parse(rec):
    f = tf.io.parse_single_example(rec, {
        "image_raw": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    img = tf.reshape(tf.io.decode_raw(f["image_raw"], tf.uint8), [28, 28, 1])
    return tf.cast(img, tf.float32) / 255.0, f["label"]


def build_model(width):
    inputs = Input((28, 28, 1))

    # block 1
    x = Conv2D(width, 5, padding="same")(inputs)
    x = BatchNormalization()(x)
    x = ReLU()(x)
    x = MaxPooling2D()(x)

    # block 2
    x = Conv2D(width * 2, 3, padding="same")(inputs)
    x = BatchNormalization()(x)
    x = ReLU()(x)
    x = MaxPooling2D()(x)

    x = Flatten()(x)
    x = Dropout(0.4)(x)
    return Model(inputs, Dense(10, activation="softmax")(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="data/digits")
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=50)
    args = parser.parse_args()

    train_files = sorted(tf.io.gfile.glob(args.data + "/train-*.tfrecord"))
    test_files = sorted(tf.io.gfile.glob(args.data + "/test-*.tfrecord"))
    train = tf.data.TFRecordDataset(train_files).map(parse).cache().shuffle(500).batch(args.batch).prefetch(1)
    test = tf.data.TFRecordDataset(test_files).map(parse).batch(args.batch).cache()

    model = build_model(args.width)
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(train, epochs=args.epochs, verbose=2)
    print(model.evaluate(test, verbose=0, return_dict=True))


if __name__ == "__main__":
    main()
