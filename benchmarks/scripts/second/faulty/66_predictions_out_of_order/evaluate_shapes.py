import glob

import numpy as np
import tensorflow as tf
from sklearn.metrics import classification_report, confusion_matrix
from tensorflow.keras import layers

NAMES = ["circle", "square", "cross", "stripes"]


def parse(rec):
    e = tf.io.parse_single_example(rec, {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    })
    img = tf.io.decode_jpeg(e["image/encoded"], channels=3)
    return tf.reshape(tf.cast(img, tf.float32) / 255.0, [32, 32, 3]), e["image/class/label"]


def get_dataset(split, batch_size=32):
    ds = tf.data.TFRecordDataset(sorted(glob.glob(f"data/shapes/{split}-*.tfrecord")))
    ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.shuffle(320)
    return ds.batch(batch_size).prefetch(tf.data.AUTOTUNE)


train_ds, val_ds = get_dataset("train"), get_dataset("val")

model = tf.keras.Sequential([
    layers.Input((32, 32, 3)),
    layers.Conv2D(16, 3, activation="relu"), layers.MaxPooling2D(),
    layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(),
    layers.Flatten(),
    layers.Dense(4, activation="softmax"),
])
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=3)

# detailed report
y_true = np.concatenate([y.numpy() for _, y in val_ds])
y_pred = np.argmax(model.predict(val_ds, verbose=0), axis=1)
print(confusion_matrix(y_true, y_pred))
print(classification_report(y_true, y_pred, target_names=NAMES, zero_division=0))
