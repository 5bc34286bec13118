import tensorflow as tf


def augment(image, label, seed=(3, 7)):
    image = tf.image.stateless_random_flip_left_right(image, seed)
    image = tf.image.stateless_random_brightness(image, 0.2, seed)
    image = tf.image.stateless_random_contrast(image, 0.7, 1.3, seed)
    return image, label
