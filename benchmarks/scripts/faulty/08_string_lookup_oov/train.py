import tensorflow as tf
import keras
from keras import layers

CLASS_NAMES = ["bird", "cat", "dog"]
AUTOTUNE = tf.data.AUTOTUNE

lookup = layers.StringLookup(vocabulary=CLASS_NAMES)


def parse(rec):
    f = tf.io.parse_single_example(rec, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.string),
    })
    img = tf.image.decode_png(f["image"], channels=3)
    img = tf.image.resize(img, (32, 32)) / 255.0
    return img, lookup(f["label"])


def dataset(pattern):
    return (
        tf.data.Dataset.list_files(pattern)
        .interleave(tf.data.TFRecordDataset, num_parallel_calls=AUTOTUNE)
        .map(parse, num_parallel_calls=AUTOTUNE)
    )


train_ds = dataset("data/animals/train*").shuffle(240).batch(16).prefetch(AUTOTUNE)
val_ds = dataset("data/animals/val*").batch(16).prefetch(AUTOTUNE)

model = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        layers.RandomFlip("horizontal"),
        layers.Conv2D(16, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(32, 3, activation="relu"),
        layers.GlobalMaxPooling2D(),
        layers.Dropout(0.2),
        layers.Dense(len(CLASS_NAMES), activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=5)
