import tensorflow as tf

_REGISTRY = {}


def register(fn):
    _REGISTRY[fn.__name__] = fn
    return fn


def build(name, *args):
    return _REGISTRY[name](*args)


@register
def small_cnn(size, classes):
    """Returns logits."""
    return tf.keras.Sequential([
        tf.keras.Input((size, size, 3)),
        tf.keras.layers.Conv2D(16, 3, activation="relu"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Conv2D(32, 3, activation="relu"),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(classes),
    ])


@register
def linear(size, classes):
    return tf.keras.Sequential([
        tf.keras.Input((size, size, 3)), tf.keras.layers.Flatten(), tf.keras.layers.Dense(classes)])
