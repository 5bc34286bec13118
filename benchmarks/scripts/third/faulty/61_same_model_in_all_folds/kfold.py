import numpy as np
import tensorflow as tf
from sklearn.model_selection import KFold

X, y = [], []
for r in tf.data.TFRecordDataset("data/shapes_pool/all.tfrecord"):
    ex = tf.io.parse_single_example(r, {"image": tf.io.FixedLenFeature([], tf.string),
                                        "label": tf.io.FixedLenFeature([], tf.int64)})
    X.append(tf.io.decode_jpeg(ex["image"], channels=3).numpy())
    y.append(ex["label"].numpy())
X = np.array(X) / 255.0
y = np.array(y)
print(X.shape, y.shape)


def create_model():
    model = tf.keras.Sequential([
        tf.keras.layers.Input((32, 32, 3)),
        tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(32, activation="relu"),
        tf.keras.layers.Dense(4, activation="softmax"),
    ])
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


model = create_model()
scores = []
kf = KFold(n_splits=4, shuffle=True, random_state=1)
for fold, (tr, te) in enumerate(kf.split(X)):
    model.fit(X[tr], y[tr], epochs=4, batch_size=32, verbose=0)
    acc = model.evaluate(X[te], y[te], verbose=0)[1]
    print("fold", fold, "accuracy", round(acc, 3))
    scores.append(acc)

print("cross validated accuracy: %.3f +- %.3f" % (np.mean(scores), np.std(scores)))
