import numpy as np
import tensorflow as tf
from sklearn.preprocessing import StandardScaler


def read_tfrecord(filename):
    xs, ys = [], []
    for raw in tf.data.TFRecordDataset(filename):
        parsed = tf.io.parse_single_example(raw, {
            "x": tf.io.FixedLenFeature([8], tf.float32),
            "price": tf.io.FixedLenFeature([], tf.float32),
        })
        xs.append(parsed["x"].numpy())
        ys.append(parsed["price"].numpy())
    return np.array(xs), np.array(ys).reshape(-1, 1)


x_train, y_train = read_tfrecord("data/houses/train.tfrecord")
x_val, y_val = read_tfrecord("data/houses/val.tfrecord")

scaler = StandardScaler()
x_train = scaler.fit_transform(x_train)
x_val = scaler.fit_transform(x_val)

y_scaler = StandardScaler()
y_train_s = y_scaler.fit_transform(y_train)
y_val_s = y_scaler.transform(y_val)

model = tf.keras.Sequential([
    tf.keras.layers.Input((8,)),
    tf.keras.layers.Dense(32, activation="relu"),
    tf.keras.layers.Dense(1),
])
model.compile(optimizer=tf.keras.optimizers.Adam(0.01), loss="mse")
model.fit(x_train, y_train_s, epochs=15, batch_size=32, validation_data=(x_val, y_val_s), verbose=2)

pred = y_scaler.inverse_transform(model.predict(x_val, verbose=0))
print("MAE in euros:", np.abs(pred - y_val).mean())
