"""A tiny single-shot detector: an 8x8 grid, each cell predicts objectness, a class and a box."""
import tensorflow as tf
from tensorflow import keras

GRID, CLASSES = 8, 3
B = "image/object/bbox/"
SPEC = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/object/class/label": tf.io.VarLenFeature(tf.int64),
    **{B + k: tf.io.VarLenFeature(tf.float32) for k in ("xmin", "ymin", "xmax", "ymax")},
}


def encode(record):
    f = tf.io.parse_single_example(record, SPEC)
    image = tf.ensure_shape(tf.cast(tf.io.decode_jpeg(f["image/encoded"], channels=3), tf.float32), (64, 64, 3))
    xmin, ymin, xmax, ymax = (tf.sparse.to_dense(f[B + k]) for k in ("xmin", "ymin", "xmax", "ymax"))
    kind = tf.sparse.to_dense(f["image/object/class/label"]) - 1      # 1..3 in the records
    cx, cy, w, h = (xmin + xmax) / 2, (ymin + ymax) / 2, xmax - xmin, ymax - ymin
    col = tf.minimum(tf.cast(cx * GRID, tf.int32), GRID - 1)
    row = tf.minimum(tf.cast(cy * GRID, tf.int32), GRID - 1)
    off_x, off_y = cx * GRID - tf.cast(col, tf.float32), cy * GRID - tf.cast(row, tf.float32)
    values = tf.concat(
        [tf.ones_like(cx)[:, None], tf.stack([off_y, off_x, h, w], 1), tf.one_hot(kind, CLASSES)], axis=1
    )
    cells = tf.stack([row, col], 1)
    # when two centres share a cell, only one of them is kept
    target = tf.tensor_scatter_nd_update(tf.zeros((GRID, GRID, 5 + CLASSES)), cells, values)
    return image / 255.0, target


def detection_loss(y_true, y_pred):
    obj = y_true[..., 0]
    objectness = tf.nn.sigmoid_cross_entropy_with_logits(labels=obj, logits=y_pred[..., 0])
    objectness *= 1.0 + 4.0 * obj                                       # few cells hold an object
    box = tf.reduce_sum(tf.abs(y_true[..., 1:5] - tf.sigmoid(y_pred[..., 1:5])), -1) * obj
    cls = tf.nn.softmax_cross_entropy_with_logits(labels=y_true[..., 5:], logits=y_pred[..., 5:]) * obj
    per_image = lambda t: tf.reduce_sum(t, axis=(1, 2))
    return (per_image(objectness) + 2.0 * per_image(box) + per_image(cls)) / tf.maximum(per_image(obj), 1.0)


class ClassAccuracy(keras.metrics.Mean):
    """Class accuracy in the cells that hold an object."""

    def update_state(self, y_true, y_pred, sample_weight=None):
        hit = tf.cast(tf.argmax(y_true[..., 5:], -1) == tf.argmax(y_pred[..., 5:], -1), tf.float32)
        super().update_state(hit, sample_weight=y_true[..., 0])


train = tf.data.TFRecordDataset("data/boxes/train.tfrecord").map(encode).cache().shuffle(160).batch(16).prefetch(1)
val = tf.data.TFRecordDataset("data/boxes/val.tfrecord").map(encode).batch(20)

inputs = keras.Input((64, 64, 3))
x = inputs
for f in (16, 32, 48):
    x = keras.layers.Conv2D(f, 3, strides=2, padding="same", activation="relu")(x)
x = keras.layers.Conv2D(48, 3, padding="same", activation="relu")(x)
model = keras.Model(inputs, keras.layers.Conv2D(5 + CLASSES, 1)(x))
model.compile(keras.optimizers.Adam(4e-3), loss=detection_loss, metrics=[ClassAccuracy(name="class_acc")])
model.fit(train, validation_data=val, epochs=6, verbose=2)
