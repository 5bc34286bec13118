from tensorflow import keras
from tensorflow.keras import layers

from utils.tfrec import load_tfrecords

BATCH_SIZE = 32

train = load_tfrecords("data/shapes/train-*.tfrecord", batch_size=BATCH_SIZE, shuffle=True)
valid = load_tfrecords("data/shapes/val-*.tfrecord", batch_size=BATCH_SIZE)

train = train.batch(BATCH_SIZE).prefetch(2)
valid = valid.prefetch(2)

net = keras.Sequential([
    keras.Input(shape=(32, 32, 3)),
    layers.SeparableConv2D(32, 3, activation="relu"),
    layers.MaxPooling2D(),
    layers.SeparableConv2D(64, 3, activation="relu"),
    layers.GlobalAveragePooling2D(),
    layers.Dense(4, activation="softmax"),
])
net.compile(keras.optimizers.RMSprop(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
net.fit(train, epochs=3, validation_data=valid)
