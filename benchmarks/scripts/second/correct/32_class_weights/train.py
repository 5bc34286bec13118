"""Rare positives: class weights, and PR-AUC instead of accuracy."""
import numpy as np
import tensorflow as tf
from tensorflow import keras

METRICS = [
    keras.metrics.Precision(name="precision"),
    keras.metrics.Recall(name="recall"),
    keras.metrics.AUC(name="roc"),
    keras.metrics.AUC(name="prc", curve="PR"),
]


def parse(record):
    ex = tf.io.parse_single_example(
        record, {"image": tf.io.FixedLenFeature([], tf.string), "target": tf.io.FixedLenFeature([], tf.int64)}
    )
    image = tf.io.decode_png(ex["image"], channels=3)
    image = tf.reshape(tf.image.convert_image_dtype(image, tf.float32), [32, 32, 3])
    return image, tf.cast(ex["target"], tf.float32)


train_ds = tf.data.TFRecordDataset("data/cats_dogs/train.tfrecord").map(parse).cache()
val_ds = tf.data.TFRecordDataset("data/cats_dogs/val.tfrecord").map(parse).batch(40)

targets = np.array([t for _, t in train_ds.as_numpy_iterator()])
pos, neg = targets.sum(), (1 - targets).sum()
total = pos + neg
class_weight = {0: total / (2 * neg), 1: total / (2 * pos)}
print("positives", int(pos), "of", int(total), class_weight)

model = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
        keras.layers.GlobalMaxPooling2D(),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(optimizer=keras.optimizers.Adam(5e-3), loss="binary_crossentropy", metrics=METRICS)
model.fit(
    train_ds.shuffle(300).batch(50).prefetch(1),
    validation_data=val_ds,
    epochs=6,
    class_weight=class_weight,
    callbacks=[keras.callbacks.EarlyStopping("val_prc", mode="max", patience=3, restore_best_weights=True)],
    verbose=2,
)
