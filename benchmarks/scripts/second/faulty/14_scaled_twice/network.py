from keras import Input, Model, layers


def conv_block(x, filters):
    x = layers.Conv2D(filters, 3, padding="same")(x)
    x = layers.Activation("relu")(x)
    return layers.MaxPooling2D()(x)


def convnet(shape=(32, 32, 3), classes=4):
    inp = Input(shape)
    x = layers.Rescaling(1.0 / 255)(inp)
    x = conv_block(x, 16)
    x = conv_block(x, 32)
    x = layers.Flatten()(x)
    x = layers.Dropout(0.25)(x)
    return Model(inp, layers.Dense(classes, activation="softmax")(x))
