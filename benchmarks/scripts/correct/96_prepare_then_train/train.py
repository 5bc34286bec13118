import json
import pathlib

import tensorflow as tf

import prepare

DATA = pathlib.Path("bars/tfrecord")
if not (DATA / "info.json").exists():
    prepare.draw_example_pictures(pathlib.Path("bars/raw"))
    prepare.convert(pathlib.Path("bars/raw"), DATA)
info = json.loads((DATA / "info.json").read_text())


def parse(record):
    f = tf.io.parse_single_example(record, {
        "image": tf.io.FixedLenFeature([], tf.string), "class": tf.io.FixedLenFeature([], tf.int64)})
    image = tf.io.decode_png(f["image"], channels=1)
    return tf.cast(tf.ensure_shape(image, (20, 20, 1)), tf.float32) / 255.0, f["class"]


def read(split, shuffle):
    files = tf.data.Dataset.list_files(str(DATA / f"{split}-*.tfrecord"), shuffle=shuffle)
    ds = files.interleave(tf.data.TFRecordDataset)
    if shuffle:
        ds = ds.shuffle(info["train"])
    return ds.map(parse).batch(32)


model = tf.keras.Sequential([
    tf.keras.Input((20, 20, 1)),
    tf.keras.layers.Conv2D(8, 3, activation="relu"),
    tf.keras.layers.GlobalMaxPooling2D(),
    tf.keras.layers.Dense(len(info["classes"]), activation="softmax"),
])
model.compile(tf.keras.optimizers.Adam(1e-2), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(read("train", True), validation_data=read("val", False), epochs=6, verbose=2)
