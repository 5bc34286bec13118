from tensorflow.keras import Sequential, layers


def small_cnn(size, classes):
    return Sequential([
        layers.Input((size, size, 3)),
        layers.Conv2D(16, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(32, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(32, 3, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(classes),
    ])
