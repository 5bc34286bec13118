import argparse
import glob

import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

CLASSES = ["bird", "cat", "dog"]


def build_table():
    init = tf.lookup.KeyValueTensorInitializer(CLASSES, tf.range(len(CLASSES), dtype=tf.int64))
    return tf.lookup.StaticHashTable(init, default_value=-1)


def make_parser(table):
    def parse(rec):
        e = tf.io.parse_single_example(rec, {
            "image": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.string),
        })
        image = tf.io.decode_png(e["image"], channels=3)
        image = tf.image.resize(image, [32, 32]) / 255.0
        return image, table.lookup(e["label"])
    return parse


def main(args):
    parse = make_parser(build_table())
    train = tf.data.TFRecordDataset(glob.glob(f"{args.data}/train-*")).map(parse).shuffle(240).batch(24).prefetch(2)
    val = tf.data.TFRecordDataset(glob.glob(f"{args.data}/val-*")).map(parse).batch(24).cache()

    model = keras.Sequential([
        keras.Input((32, 32, 3)),
        layers.Conv2D(16, 3, activation="relu"), layers.MaxPooling2D(),
        layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dense(len(CLASSES), activation="softmax"),
    ])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])

    checkpoint = keras.callbacks.ModelCheckpoint(
        args.out, monitor="val_accuracy", mode="min", save_best_only=True, verbose=1)
    model.fit(train, validation_data=val, epochs=args.epochs, callbacks=[checkpoint], verbose=2)

    best = keras.models.load_model(args.out)
    print("final model:", best.evaluate(val, verbose=0, return_dict=True))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", default="data/animals")
    ap.add_argument("--out", default="animals_best.keras")
    ap.add_argument("--epochs", type=int, default=4)
    main(ap.parse_args())
