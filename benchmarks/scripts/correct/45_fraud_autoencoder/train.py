"""Train an autoencoder on normal transactions; what it reconstructs badly is suspicious."""
import numpy as np
import tensorflow as tf
from sklearn.metrics import average_precision_score, roc_auc_score


def read(path):
    rows, labels = [], []
    for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
        f = tf.train.Example.FromString(record).features.feature
        rows.append(list(f["x"].float_list.value) + [np.log1p(f["amount"].float_list.value[0])])
        labels.append(f["label"].int64_list.value[0])
    return np.array(rows, np.float32), np.array(labels)


x_train, y_train = read("data/fraud/train.tfrecord")
x_val, y_val = read("data/fraud/val.tfrecord")

normal = x_train[y_train == 0]
mean, std = normal.mean(axis=0), normal.std(axis=0)
normal = (normal - mean) / std
x_val = (x_val - mean) / std

autoencoder = tf.keras.Sequential([
    tf.keras.Input((11,)),
    tf.keras.layers.GaussianNoise(0.1),
    tf.keras.layers.Dense(8, activation="tanh"),
    tf.keras.layers.Dense(4, activation="tanh"),
    tf.keras.layers.Dense(8, activation="tanh"),
    tf.keras.layers.Dense(11),
])
autoencoder.compile(optimizer=tf.keras.optimizers.Adam(5e-3), loss="mse")
autoencoder.fit(normal, normal, epochs=12, batch_size=32, shuffle=True, verbose=2)

error = np.square(autoencoder.predict(x_val, verbose=0) - x_val).mean(axis=1)
threshold = np.quantile(np.square(autoencoder.predict(normal, verbose=0) - normal).mean(axis=1), 0.98)
print("flagged:", int((error > threshold).sum()), "of", len(error))
print("roc auc", roc_auc_score(y_val, error), "average precision", average_precision_score(y_val, error))
