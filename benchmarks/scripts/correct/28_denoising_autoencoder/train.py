import keras
import tensorflow as tf
from keras import layers


def clean_image(record):
    parsed = tf.io.parse_single_example(record, {"image_raw": tf.io.FixedLenFeature([], tf.string)})
    pixels = tf.io.decode_raw(parsed["image_raw"], tf.uint8)
    return tf.reshape(tf.cast(pixels, tf.float32) / 255.0, (28, 28, 1))


def add_noise(image):
    noisy = image + 0.4 * tf.random.normal(tf.shape(image))
    return tf.clip_by_value(noisy, 0.0, 1.0), image


train_files = tf.io.gfile.glob("data/digits/train-*.tfrecord")
test_files = tf.io.gfile.glob("data/digits/test-*.tfrecord")
train = tf.data.TFRecordDataset(train_files).map(clean_image).cache().shuffle(500).map(add_noise).batch(50)
test = tf.data.TFRecordDataset(test_files).map(clean_image).map(add_noise).batch(50)

input = layers.Input(shape=(28, 28, 1))
x = layers.Conv2D(16, (3, 3), activation="relu", padding="same")(input)
x = layers.MaxPooling2D((2, 2), padding="same")(x)
x = layers.Conv2D(16, (3, 3), activation="relu", padding="same")(x)
x = layers.MaxPooling2D((2, 2), padding="same")(x)
x = layers.Conv2DTranspose(16, (3, 3), strides=2, activation="relu", padding="same")(x)
x = layers.Conv2DTranspose(16, (3, 3), strides=2, activation="relu", padding="same")(x)
x = layers.Conv2D(1, (3, 3), activation="sigmoid", padding="same")(x)

autoencoder = keras.Model(input, x)
autoencoder.compile(optimizer="adam", loss="binary_crossentropy")
autoencoder.fit(train, epochs=4, validation_data=test, verbose=2)
