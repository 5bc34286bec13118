# Digits must not be mirrored, but small shifts and a bit of noise are fine.
import tensorflow as tf
from tensorflow.keras import layers


def parse(record):
    row = tf.io.parse_single_example(record, {
        "image_raw": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
        "height": tf.io.FixedLenFeature([], tf.int64),
        "width": tf.io.FixedLenFeature([], tf.int64),
        "depth": tf.io.FixedLenFeature([], tf.int64),
    })
    shape = tf.stack([row["height"], row["width"], row["depth"]])
    image = tf.reshape(tf.io.decode_raw(row["image_raw"], tf.uint8), shape)
    image.set_shape([28, 28, 1])
    return tf.cast(image, tf.float32) / 255.0, row["label"]


train = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob("data/digits/train-*"))).map(parse).cache().shuffle(500).batch(25)
test = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob("data/digits/test-*"))).map(parse).cache().batch(100)

# These layers do nothing in evaluate and predict, so they may live inside the model.
augment = tf.keras.Sequential([
    layers.RandomTranslation(0.07, 0.07, fill_mode="constant"),
    layers.RandomZoom(0.05, fill_mode="constant"),
    layers.GaussianNoise(0.05),
])
model = tf.keras.Sequential([
    layers.Input((28, 28, 1)),
    augment,
    layers.Conv2D(16, 3, activation="relu"), layers.MaxPooling2D(),
    layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(),
    layers.Flatten(), layers.Dense(10, activation="softmax"),
])
model.compile(optimizer=tf.keras.optimizers.Adam(3e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=test, epochs=6, verbose=2)
# In this data set the training accuracy stays below the test accuracy: augmentation makes training harder.
