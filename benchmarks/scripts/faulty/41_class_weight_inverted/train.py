import numpy as np
import tensorflow as tf

TRAIN, VALID = "data/fraud/train.tfrecord", "data/fraud/val.tfrecord"
SPEC = {
    "x": tf.io.FixedLenFeature([10], tf.float32),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def parse(rec):
    row = tf.io.parse_single_example(rec, SPEC)
    return row["x"], row["label"]


train_ds = tf.data.TFRecordDataset(TRAIN).map(parse)
labels = np.array([y for _, y in train_ds.as_numpy_iterator()])
neg, pos = np.bincount(labels)
total = neg + pos
print(f"Examples: {total}, positive: {pos} ({100 * pos / total:.2f}% of total)")

weight_for_0 = neg / total
weight_for_1 = pos / total
class_weight = {0: weight_for_0, 1: weight_for_1}

train_ds = train_ds.cache().shuffle(total).batch(50).prefetch(1)
valid_ds = tf.data.TFRecordDataset(VALID).map(parse).batch(100)

METRICS = [
    tf.keras.metrics.Precision(name="precision"),
    tf.keras.metrics.Recall(name="recall"),
    tf.keras.metrics.AUC(name="prc", curve="PR"),
]
model = tf.keras.Sequential([
    tf.keras.Input((10,)),
    tf.keras.layers.Dense(16, activation="relu"),
    tf.keras.layers.Dropout(0.3),
    tf.keras.layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer=tf.keras.optimizers.Adam(1e-3), loss=tf.keras.losses.BinaryCrossentropy(), metrics=METRICS)
model.fit(train_ds, epochs=8, validation_data=valid_ds, class_weight=class_weight, verbose=2)
