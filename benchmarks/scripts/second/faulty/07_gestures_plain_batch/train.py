import keras

from gesture.data import load
from gesture.model import build_model

BATCH_SIZE = 32

if __name__ == "__main__":
    train = load("data/gestures/train.tfrecord", BATCH_SIZE, training=True)
    val = load("data/gestures/val.tfrecord", BATCH_SIZE, training=False)
    model = build_model()
    model.compile(
        optimizer=keras.optimizers.Adam(3e-3),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    model.fit(train, validation_data=val, epochs=2, verbose=2)
