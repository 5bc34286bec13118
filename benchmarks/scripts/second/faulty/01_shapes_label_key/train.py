"""Small convnet on the shapes TFRecords."""
import glob
import os

import tensorflow as tf

AUTO = tf.data.AUTOTUNE
IMG = 32
CLASSES = ["circle", "square", "cross", "stripes"]

FEATURES = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/label": tf.io.FixedLenFeature([], tf.int64),
}


def read(serialized):
    ex = tf.io.parse_single_example(serialized, FEATURES)
    img = tf.io.decode_jpeg(ex["image/encoded"], channels=3)
    img = tf.image.resize(img, [IMG, IMG]) / 255.0
    return img, ex["image/label"]


def get_ds(pattern, training):
    files = sorted(glob.glob(os.path.join("data", "shapes", pattern)))
    ds = tf.data.TFRecordDataset(files, num_parallel_reads=AUTO)
    if training:
        ds = ds.shuffle(512)
    return ds.map(read, num_parallel_calls=AUTO).batch(32).prefetch(AUTO)


train_ds = get_ds("train-*.tfrecord", True)
val_ds = get_ds("val-*.tfrecord", False)

model = tf.keras.Sequential([
    tf.keras.Input((IMG, IMG, 3)),
    tf.keras.layers.Conv2D(16, 3, activation="relu"),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Conv2D(32, 3, activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(len(CLASSES), activation="softmax"),
])
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=3)
