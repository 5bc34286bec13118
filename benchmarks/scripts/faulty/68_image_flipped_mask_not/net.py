from tensorflow.keras import Model, layers


def build_unet(shape, classes):
    inp = layers.Input(shape)
    c1 = layers.Conv2D(16, 3, activation="relu", padding="same")(inp)
    p1 = layers.MaxPooling2D()(c1)
    c2 = layers.Conv2D(32, 3, activation="relu", padding="same")(p1)
    u1 = layers.UpSampling2D()(c2)
    m1 = layers.concatenate([u1, c1])
    c3 = layers.Conv2D(16, 3, activation="relu", padding="same")(m1)
    return Model(inp, layers.Conv2D(classes, 1)(c3))
