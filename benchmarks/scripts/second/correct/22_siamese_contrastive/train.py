import random

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers, ops

random.seed(3)
np.random.seed(3)
tf.random.set_seed(3)
MARGIN = 1.0


def load():
    images, labels = [], []
    spec = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    for rec in tf.data.TFRecordDataset("data/shapes_pool/all.tfrecord"):
        ex = tf.io.parse_single_example(rec, spec)
        images.append(tf.io.decode_jpeg(ex["image"]).numpy())
        labels.append(int(ex["label"]))
    return np.stack(images).astype("float32") / 255.0, np.array(labels)


def make_pairs(x, y):
    by_class = [np.where(y == c)[0] for c in range(4)]
    left, right, same = [], [], []
    for i, label in enumerate(y):
        left += [x[i]]
        right += [x[random.choice(by_class[label][by_class[label] != i])]]
        same += [1.0]
        other = random.choice([c for c in range(4) if c != label])
        left += [x[i]]
        right += [x[random.choice(by_class[other])]]
        same += [0.0]
    return [np.array(left), np.array(right)], np.array(same, "float32")


x, y = load()
# pictures are divided first, pairs are made within each part: no picture is on both sides
pairs_train, same_train = make_pairs(x[:320], y[:320])
pairs_val, same_val = make_pairs(x[320:], y[320:])

embed = keras.Sequential([
    layers.Input((32, 32, 3)),
    layers.Conv2D(16, 3, strides=2, activation="relu"),
    layers.Conv2D(32, 3, strides=2, activation="relu"),
    layers.GlobalMaxPooling2D(),
    layers.Dense(16),
    layers.UnitNormalization(),
])
a, b = keras.Input((32, 32, 3)), keras.Input((32, 32, 3))
distance = layers.Lambda(
    lambda v: ops.sqrt(ops.maximum(ops.sum(ops.square(v[0] - v[1]), axis=1, keepdims=True), 1e-7)),
    output_shape=(1,),
)([embed(a), embed(b)])
siamese = keras.Model([a, b], distance)


def contrastive(y_true, d):
    """y_true is 1 for the same class: pull together; 0: push apart up to the margin."""
    return ops.mean(y_true * ops.square(d) + (1 - y_true) * ops.square(ops.maximum(MARGIN - d, 0)))


def pair_accuracy(y_true, d):
    return ops.mean(ops.cast(ops.equal(y_true, ops.cast(d < MARGIN / 2, y_true.dtype)), "float32"))


siamese.compile(loss=contrastive, optimizer=keras.optimizers.RMSprop(2e-3), metrics=[pair_accuracy])
siamese.fit(pairs_train, same_train[:, None], validation_data=(pairs_val, same_val[:, None]), batch_size=32, epochs=4,
            verbose=2)
