import tensorflow as tf

CLASSES = ["bird", "cat", "dog"]
WEIGHTS = "animals.weights.h5"


def network() -> tf.keras.Model:
    image = tf.keras.Input((48, 48, 3))
    x = tf.keras.layers.Rescaling(1 / 127.5, offset=-1)(image)
    x = tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu")(x)
    x = tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu")(x)
    x = tf.keras.layers.GlobalMaxPooling2D()(x)
    return tf.keras.Model(image, tf.keras.layers.Dense(len(CLASSES), activation="softmax")(x))
