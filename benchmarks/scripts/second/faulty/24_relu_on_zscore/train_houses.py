import tensorflow as tf
from tensorflow.keras import layers

from house_data import batches, price_stats

mean, std = price_stats()
print(f"price {mean:.0f} +- {std:.0f}")

model = tf.keras.Sequential([
    layers.Input((8,)),
    layers.Dense(64, activation="relu"),
    layers.Dense(64, activation="relu"),
    layers.Dense(1, activation="relu"),
])
model.compile(optimizer=tf.keras.optimizers.Adam(1e-3), loss="mse", metrics=["mae"])
stop = tf.keras.callbacks.EarlyStopping(monitor="val_loss", patience=5, restore_best_weights=True)
model.fit(batches("train", mean, std), validation_data=batches("val", mean, std), epochs=5, callbacks=[stop], verbose=2)

val_mae = model.evaluate(batches("val", mean, std), verbose=0)[1] * std
print(f"validation error in euro: {val_mae:.0f}")
