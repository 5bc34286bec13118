import numpy as np
import tensorflow as tf

N = 3000
t = np.arange(N)
rng = np.random.default_rng(3)
series = (np.sin(t / 12) + 0.4 * np.sin(t / 3.7) + 0.1 * rng.normal(size=N)).astype("float32") * 15 + 40

# No shuffling across time: first 70% train, next 20% validation, last 10% test.
train, val, test = series[: int(N * 0.7)], series[int(N * 0.7): int(N * 0.9)], series[int(N * 0.9):]
mean, std = train.mean(), train.std()
train, val, test = ((part - mean) / std for part in (train, val, test))

WIDTH = 24


def windows(part, shuffle):
    return tf.keras.utils.timeseries_dataset_from_array(
        data=part[:-1, None],
        targets=part[WIDTH:],
        sequence_length=WIDTH,
        batch_size=64,
        shuffle=shuffle,
    )


model = tf.keras.Sequential([
    tf.keras.Input((WIDTH, 1)),
    tf.keras.layers.LSTM(16),
    tf.keras.layers.Dense(1),
])
model.compile(loss=tf.keras.losses.MeanSquaredError(), optimizer="adam",
              metrics=[tf.keras.metrics.MeanAbsoluteError()])
stop = tf.keras.callbacks.EarlyStopping(monitor="val_loss", patience=2, restore_best_weights=True)
model.fit(windows(train, True), validation_data=windows(val, False), epochs=6, callbacks=[stop], verbose=2)
print("test (mse, mae):", model.evaluate(windows(test, False), verbose=0))
