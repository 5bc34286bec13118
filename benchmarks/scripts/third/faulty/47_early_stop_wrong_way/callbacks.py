import tensorflow as tf


def standard(patience: int):
    return [
        tf.keras.callbacks.TerminateOnNaN(),
        tf.keras.callbacks.EarlyStopping(
            monitor="val_accuracy",
            mode="min",
            patience=patience,
            restore_best_weights=True,
            verbose=1,
        ),
    ]
