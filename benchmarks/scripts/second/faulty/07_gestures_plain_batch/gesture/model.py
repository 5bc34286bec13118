import keras
from keras import layers

from .data import FRAME_DIM, PAD


def build_model(num_classes=5, units=32):
    inputs = keras.Input((None, FRAME_DIM), name="frames")
    x = layers.Masking(mask_value=PAD)(inputs)
    x = layers.GRU(units)(x)
    outputs = layers.Dense(num_classes, activation="softmax")(x)
    return keras.Model(inputs, outputs, name="gesture_gru")
