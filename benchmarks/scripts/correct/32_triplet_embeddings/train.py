import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

CLASSES, PER_CLASS = 10, 4   # each batch: 10 classes x 4 images


def parse(r):
    e = tf.io.parse_single_example(r, {"image_raw": tf.io.FixedLenFeature([], tf.string),
                                       "label": tf.io.FixedLenFeature([], tf.int64)})
    x = tf.cast(tf.io.decode_raw(e["image_raw"], tf.uint8), tf.float32) / 255.0
    return tf.reshape(x, [28, 28, 1]), tf.cast(e["label"], tf.int32)


def load(split):
    ds = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(f"data/digits/{split}-*.tfrecord"))).map(parse)
    xs, ys = zip(*ds.as_numpy_iterator())
    return np.stack(xs), np.array(ys)


x_train, y_train = load("train")
x_test, y_test = load("test")

per_class = [
    tf.data.Dataset.from_tensor_slices((x_train[y_train == c], y_train[y_train == c]))
    .shuffle(100, reshuffle_each_iteration=True).repeat()
    for c in range(CLASSES)
]
balanced = tf.data.Dataset.choose_from_datasets(per_class, tf.data.Dataset.range(CLASSES).repeat())
train = balanced.batch(CLASSES * PER_CLASS)


def batch_hard_triplet_loss(y_true, embeddings, margin=0.4):
    y_true = tf.reshape(y_true, [-1])
    distances = 2.0 - 2.0 * tf.matmul(embeddings, embeddings, transpose_b=True)
    same = tf.equal(y_true[:, None], y_true[None, :])
    hardest_positive = tf.reduce_max(tf.where(same, distances, 0.0), axis=1)
    hardest_negative = tf.reduce_min(tf.where(same, 4.0, distances), axis=1)
    return tf.maximum(hardest_positive - hardest_negative + margin, 0.0)


model = tf.keras.Sequential([
    layers.Input((28, 28, 1)),
    layers.Conv2D(16, 3, strides=2, activation="relu"),
    layers.Conv2D(32, 3, strides=2, activation="relu"),
    layers.Flatten(),
    layers.Dense(32),
    layers.UnitNormalization(),
])
model.compile(tf.keras.optimizers.Adam(2e-3), loss=batch_hard_triplet_loss)
model.fit(train, steps_per_epoch=12, epochs=5, verbose=2)

gallery, queries = model.predict(x_train, verbose=0), model.predict(x_test, verbose=0)
nearest = y_train[(queries @ gallery.T).argmax(axis=1)]
print("nearest neighbour accuracy", (nearest == y_test).mean())
