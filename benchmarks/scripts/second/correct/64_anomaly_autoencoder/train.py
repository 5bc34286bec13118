"""Autoencoder that sees only normal transactions; fraud is what it cannot rebuild."""
import numpy as np
import tensorflow as tf
from sklearn.metrics import roc_auc_score


def table(path):
    rows, labels = [], []
    for r in tf.data.TFRecordDataset(path):
        d = tf.io.parse_single_example(r, {
            "x": tf.io.FixedLenFeature([10], tf.float32),
            "amount": tf.io.FixedLenFeature([], tf.float32),
            "label": tf.io.FixedLenFeature([], tf.int64)})
        rows.append(np.append(d["x"].numpy(), np.log(d["amount"].numpy())))
        labels.append(int(d["label"]))
    return np.array(rows, np.float32), np.array(labels)


x_train, y_train = table("data/fraud/train.tfrecord")
x_val, y_val = table("data/fraud/val.tfrecord")
normal = x_train[y_train == 0]
rng = np.random.default_rng(0)
rng.shuffle(normal)
fit_part, threshold_part = normal[:450], normal[450:]

scale = tf.keras.layers.Normalization()
scale.adapt(fit_part)
fit_part, threshold_part, x_val = (scale(a).numpy() for a in (fit_part, threshold_part, x_val))

ae = tf.keras.Sequential([
    tf.keras.Input((11,)),
    tf.keras.layers.Dense(16, activation="relu"),
    tf.keras.layers.Dense(4, activation="relu"),
    tf.keras.layers.Dense(16, activation="relu"),
    tf.keras.layers.Dense(11),                       # standardised values have no bounds: linear output
])
ae.compile(optimizer=tf.keras.optimizers.Adam(5e-3), loss="mae")
ae.fit(fit_part, fit_part, validation_data=(threshold_part, threshold_part), batch_size=30, epochs=10, verbose=2)


def error(x):
    return np.mean(np.abs(ae.predict(x, verbose=0) - x), axis=1)


threshold = np.quantile(error(threshold_part), 0.95)
score = error(x_val)
print(f"threshold {threshold:.3f}  AUC {roc_auc_score(y_val, score):.3f}")
print(f"flagged: {np.mean(score[y_val == 1] > threshold):.2f} of fraud, {np.mean(score[y_val == 0] > threshold):.2f} of normal")
