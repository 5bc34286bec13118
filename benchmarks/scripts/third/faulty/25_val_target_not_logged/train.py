import tensorflow as tf

from pricing import datasets


def build():
    inputs = tf.keras.Input((8,))
    hidden = tf.keras.layers.Dense(32, activation="relu")(inputs)
    return tf.keras.Model(inputs, tf.keras.layers.Dense(1)(hidden))


if __name__ == "__main__":
    train = datasets.training("data/houses/train.tfrecord", 32)
    val = datasets.validation("data/houses/val.tfrecord", 100)
    model = build()
    model.compile(optimizer=tf.keras.optimizers.Adam(5e-3), loss="mse", metrics=["mae"])
    stop = tf.keras.callbacks.EarlyStopping(monitor="val_loss", patience=3, restore_best_weights=True)
    history = model.fit(train, validation_data=val, epochs=15, callbacks=[stop], verbose=2)
    print("best validation loss:", min(history.history["val_loss"]))
