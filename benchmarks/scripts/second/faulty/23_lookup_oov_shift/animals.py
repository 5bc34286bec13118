import glob

import keras
import tensorflow as tf
from keras import layers

CLASS_NAMES = ["bird", "cat", "dog"]
label_lookup = layers.StringLookup(vocabulary=CLASS_NAMES)


def decode_record(record):
    features = tf.io.parse_single_example(
        record,
        {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.string)},
    )
    image = tf.io.decode_png(features["image"], channels=3)
    image = tf.ensure_shape(image, (48, 48, 3))
    return image, label_lookup(features["label"])


def prepare(pattern, shuffle=False):
    ds = tf.data.TFRecordDataset(sorted(glob.glob(pattern)))
    ds = ds.map(decode_record, num_parallel_calls=tf.data.AUTOTUNE)
    if shuffle:
        ds = ds.shuffle(240)
    return ds.batch(24).prefetch(tf.data.AUTOTUNE)


train_ds = prepare("data/animals/train-*.tfrecord", shuffle=True)
val_ds = prepare("data/animals/val-*.tfrecord")

data_augmentation = keras.Sequential([layers.RandomFlip("horizontal"), layers.RandomRotation(0.05)])

inputs = keras.Input((48, 48, 3))
x = data_augmentation(inputs)
x = layers.Rescaling(1.0 / 255)(x)
x = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(x)
x = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(x)
x = layers.GlobalAveragePooling2D()(x)
outputs = layers.Dense(len(CLASS_NAMES), activation="softmax")(x)
model = keras.Model(inputs, outputs)

model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
model.fit(train_ds, epochs=2, validation_data=val_ds)
