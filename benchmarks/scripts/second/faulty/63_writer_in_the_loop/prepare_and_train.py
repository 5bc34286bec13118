"""Split the pool into train/val files (28x28 grayscale PNG) and train on them."""
import os
import random

import tensorflow as tf

OUT = "prepared"
random.seed(0)


def to_example(png, label):
    return tf.train.Example(features=tf.train.Features(feature={
        "png": tf.train.Feature(bytes_list=tf.train.BytesList(value=[png])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }))


def convert(src):
    os.makedirs(OUT, exist_ok=True)
    items = []
    for rec in tf.data.TFRecordDataset(src):
        ex = tf.train.Example.FromString(rec.numpy())
        jpg = ex.features.feature["image"].bytes_list.value[0]
        label = ex.features.feature["label"].int64_list.value[0]
        gray = tf.image.resize(tf.io.decode_jpeg(jpg, channels=1), [28, 28])
        items.append((tf.io.encode_png(tf.cast(gray, tf.uint8)).numpy(), label))
    random.shuffle(items)
    splits = {"train": items[80:], "val": items[:80]}
    for name, rows in splits.items():
        for png, label in rows:
            with tf.io.TFRecordWriter(os.path.join(OUT, name + ".tfrecord")) as writer:
                writer.write(to_example(png, label).SerializeToString())
        print(name, len(rows), "examples")


def parse(rec):
    f = tf.io.parse_single_example(rec, {
        "png": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    img = tf.io.decode_png(f["png"], channels=1)
    return tf.reshape(tf.cast(img, tf.float32) / 255.0, [28, 28, 1]), f["label"]


def main():
    convert("data/shapes_pool/all.tfrecord")
    train = tf.data.TFRecordDataset(f"{OUT}/train.tfrecord").map(parse).shuffle(320).batch(32).prefetch(1)
    val = tf.data.TFRecordDataset(f"{OUT}/val.tfrecord").map(parse).batch(32)
    model = tf.keras.Sequential([
        tf.keras.Input((28, 28, 1)),
        tf.keras.layers.Conv2D(16, 3, activation="relu"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Conv2D(32, 3, activation="relu"),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(4, activation="softmax"),
    ])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(train, validation_data=val, epochs=3)


if __name__ == "__main__":
    main()
