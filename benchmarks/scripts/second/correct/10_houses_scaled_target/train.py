import numpy as np
import tensorflow as tf

desc = {"x": tf.io.FixedLenFeature([8], tf.float32), "price": tf.io.FixedLenFeature([], tf.float32)}


def read(path):
    xs, ys = [], []
    for rec in tf.data.TFRecordDataset(path):
        ex = tf.io.parse_single_example(rec, desc)
        xs.append(ex["x"].numpy())
        ys.append(ex["price"].numpy())
    return np.stack(xs), np.array(ys, dtype="float32")


x_train, y_train = read("data/houses/train.tfrecord")
x_val, y_val = read("data/houses/val.tfrecord")

# statistics from the training part only
mu, sd = x_train.mean(axis=0), x_train.std(axis=0)
y_mu, y_sd = y_train.mean(), y_train.std()
scale_x = lambda a: (a - mu) / sd
scale_y = lambda a: (a - y_mu) / y_sd
unscale_y = lambda a: a * y_sd + y_mu

model = tf.keras.Sequential([
    tf.keras.Input((8,)),
    tf.keras.layers.Dense(32, activation="relu"),
    tf.keras.layers.Dense(16, activation="relu"),
    tf.keras.layers.Dense(1),
])
model.compile(optimizer=tf.keras.optimizers.RMSprop(3e-3), loss="mse", metrics=["mae"])
model.fit(
    scale_x(x_train), scale_y(y_train),
    validation_data=(scale_x(x_val), scale_y(y_val)),
    batch_size=25, epochs=8, verbose=2,
)

pred = unscale_y(model.predict(scale_x(x_val), verbose=0).squeeze(-1))
print(f"MAE  {np.mean(np.abs(pred - y_val)):,.0f} dollars")
print(f"mean {np.mean(np.abs(y_mu - y_val)):,.0f} dollars (always guessing the mean)")
ss_res, ss_tot = np.sum((y_val - pred) ** 2), np.sum((y_val - y_val.mean()) ** 2)
print(f"R2   {1 - ss_res / ss_tot:.3f}")
