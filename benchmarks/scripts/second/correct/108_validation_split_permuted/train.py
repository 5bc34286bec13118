import numpy as np
import tensorflow as tf

rng = np.random.default_rng(123)
spec = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

X, Y = [], []
for rec in tf.data.TFRecordDataset("data/shapes_sorted/train.tfrecord"):
    e = tf.io.parse_single_example(rec, spec)
    X.append(tf.io.decode_jpeg(e["image"], channels=3).numpy())
    Y.append(e["label"].numpy())
X, Y = np.array(X), np.array(Y)

# validation_split takes the END of the arrays, and the file is sorted by label: permute first
order = rng.permutation(len(X))
X, Y = X[order], Y[order]

model = tf.keras.Sequential([
    tf.keras.layers.Input((32, 32, 3)),
    tf.keras.layers.Rescaling(1 / 255),
    tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
    tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(4, activation="softmax"),
])
model.compile(loss="sparse_categorical_crossentropy", optimizer=tf.keras.optimizers.Adam(3e-3), metrics=["accuracy"])
model.fit(X, Y, batch_size=32, epochs=5, validation_split=0.2, verbose=2)

Xt, Yt = zip(*[(tf.io.decode_jpeg(e["image"]).numpy(), int(e["label"])) for e in
               (tf.io.parse_single_example(r, spec) for r in tf.data.TFRecordDataset("data/shapes_sorted/val.tfrecord"))])
print("untouched file:", model.evaluate(np.array(Xt), np.array(Yt), verbose=0))
