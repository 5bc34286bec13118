import numpy as np
import tensorflow as tf
from sklearn.model_selection import StratifiedKFold


def to_arrays(path):
    X, y = [], []
    for raw in tf.data.TFRecordDataset(path).as_numpy_iterator():
        ex = tf.train.Example.FromString(raw)
        X.append(tf.io.decode_jpeg(ex.features.feature["image"].bytes_list.value[0]).numpy())
        y.append(ex.features.feature["label"].int64_list.value[0])
    return np.asarray(X, np.float32) / 255.0, np.asarray(y)


def new_model():
    model = tf.keras.Sequential([
        tf.keras.layers.Input((32, 32, 3)),
        tf.keras.layers.Conv2D(12, 3, strides=2, activation="relu"),
        tf.keras.layers.Conv2D(24, 3, strides=2, activation="relu"),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(4, activation="softmax"),
    ])
    model.compile(tf.keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


X, y = to_arrays("data/shapes_pool/all.tfrecord")
scores = []
oof = np.zeros((len(y), 4), np.float32)
for fold, (tr, te) in enumerate(StratifiedKFold(n_splits=4, shuffle=True, random_state=42).split(X, y)):
    tf.keras.backend.clear_session()
    tf.keras.utils.set_random_seed(100 + fold)
    model = new_model()
    model.fit(X[tr], y[tr], batch_size=20, epochs=4, verbose=0)
    _, acc = model.evaluate(X[te], y[te], verbose=0)
    oof[te] = model.predict(X[te], verbose=0)
    scores.append(acc)
    print(f"fold {fold}: {acc:.3f}")
print(f"accuracy {np.mean(scores):.3f} +- {np.std(scores):.3f}; out of fold {np.mean(oof.argmax(1) == y):.3f}")
