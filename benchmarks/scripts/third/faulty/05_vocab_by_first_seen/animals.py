import numpy as np
import tensorflow as tf

# homework 4: classify the animals dataset

spec = {"image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.string)}


def load_data(files):
    X = []
    y = []
    classes = []
    for rec in tf.data.TFRecordDataset(files):
        ex = tf.io.parse_single_example(rec, spec)
        img = tf.io.decode_png(ex["image"], channels=3).numpy()
        name = ex["label"].numpy().decode()
        if name not in classes:
            classes.append(name)
        X.append(img / 255.0)
        y.append(classes.index(name))
    return np.array(X, dtype="float32"), np.array(y), classes


X_train, y_train, class_names = load_data(sorted(tf.io.gfile.glob("data/animals/train-*")))
X_val, y_val, _ = load_data(sorted(tf.io.gfile.glob("data/animals/val-*")))
print(X_train.shape, X_val.shape, class_names)

model = tf.keras.models.Sequential()
model.add(tf.keras.layers.Input((48, 48, 3)))
model.add(tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"))
model.add(tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu"))
model.add(tf.keras.layers.GlobalMaxPooling2D())
model.add(tf.keras.layers.Dense(len(class_names), activation="softmax"))
model.compile(optimizer=tf.keras.optimizers.Adam(0.003), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(X_train, y_train, epochs=8, batch_size=32, validation_data=(X_val, y_val), verbose=2)

loss, acc = model.evaluate(X_val, y_val, verbose=0)
print("final accuracy on validation: %.3f" % acc)
