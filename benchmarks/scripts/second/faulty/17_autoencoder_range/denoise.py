"""
Title: Convolutional autoencoder for image denoising
"""

import keras
import tensorflow as tf
from keras import layers

"""
## Prepare the data
"""

batch_size = 50


def preprocess(record):
    parsed = tf.io.parse_single_example(record, {"image_raw": tf.io.FixedLenFeature([], tf.string)})
    image = tf.reshape(tf.io.decode_raw(parsed["image_raw"], tf.uint8), (28, 28, 1))
    return tf.cast(image, tf.float32) / 127.5 - 1.0


def add_noise(image):
    noisy = image + 0.3 * tf.random.normal(tf.shape(image))
    return tf.clip_by_value(noisy, -1.0, 1.0), image


def load(split):
    files = sorted(tf.io.gfile.glob(f"data/digits/{split}-*.tfrecord"))
    return tf.data.TFRecordDataset(files).map(preprocess).cache()


train_data = load("train").shuffle(500).map(add_noise).batch(batch_size).prefetch(tf.data.AUTOTUNE)
test_data = load("test").map(add_noise).batch(batch_size).prefetch(tf.data.AUTOTUNE)

"""
## Build the autoencoder
"""

inp = keras.Input(shape=(28, 28, 1))
x = layers.Conv2D(16, 3, activation="relu", padding="same")(inp)
x = layers.MaxPooling2D(2, padding="same")(x)
x = layers.Conv2D(16, 3, activation="relu", padding="same")(x)
x = layers.MaxPooling2D(2, padding="same")(x)
x = layers.Conv2DTranspose(16, 3, strides=2, activation="relu", padding="same")(x)
x = layers.Conv2DTranspose(16, 3, strides=2, activation="relu", padding="same")(x)
x = layers.Conv2D(1, 3, activation="sigmoid", padding="same")(x)

autoencoder = keras.Model(inp, x)
autoencoder.compile(optimizer=keras.optimizers.Adam(2e-3), loss="mse")

"""
## Train
"""

autoencoder.fit(train_data, validation_data=test_data, epochs=3)
