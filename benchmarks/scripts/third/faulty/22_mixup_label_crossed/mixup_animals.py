"""
Title: MixUp on a small set of animals
Description: Mixing pairs of samples as regularization.
Accelerator: None
"""
import keras
import tensorflow as tf
from keras import layers

CLASSES = ["bird", "cat", "dog"]
BATCH = 24
lookup = layers.StringLookup(vocabulary=CLASSES, num_oov_indices=0)


def parse(record):
    row = tf.io.parse_single_example(
        record,
        {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.string)},
    )
    image = tf.io.decode_png(row["image"], channels=3)
    image = tf.cast(tf.ensure_shape(image, (48, 48, 3)), tf.float32) / 255.0
    return image, tf.one_hot(lookup(row["label"]), len(CLASSES))


def stream(pattern):
    return tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(pattern))).map(parse).cache()


train_one = stream("data/animals/train-*").shuffle(240).batch(BATCH)
train_two = stream("data/animals/train-*").shuffle(240).batch(BATCH)
val_ds = stream("data/animals/val-*").batch(60)

"""
## Define the mixup technique function
"""


def mix_up(ds_one, ds_two):
    images_one, labels_one = ds_one
    images_two, labels_two = ds_two
    lam = tf.random.uniform([tf.shape(images_one)[0]], 0.6, 1.0)
    x_l = tf.reshape(lam, (-1, 1, 1, 1))
    y_l = tf.reshape(lam, (-1, 1))
    images = images_one * x_l + images_two * (1 - x_l)
    labels = labels_one * (1 - y_l) + labels_two * y_l
    return images, labels


train_ds = tf.data.Dataset.zip((train_one, train_two)).map(mix_up).prefetch(tf.data.AUTOTUNE)

model = keras.Sequential(
    [
        layers.Input((48, 48, 3)),
        layers.Conv2D(16, 5, strides=2, activation="relu"),
        layers.Conv2D(32, 3, strides=2, activation="relu"),
        layers.GlobalMaxPooling2D(),
        layers.Dense(3, activation="softmax"),
    ]
)
model.compile(keras.optimizers.Adam(3e-3), "categorical_crossentropy", metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=6, verbose=2)
print(f"Val accuracy: {100 * model.evaluate(val_ds, verbose=0)[1]:.1f}%")
