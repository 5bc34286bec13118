"""A very small CenterNet: a heatmap of object centres per class, and the size of the box at each centre."""
import tensorflow as tf
from tensorflow.keras import layers

GRID, CLASSES = 16, 3

FEATURES = {"image/encoded": tf.io.FixedLenFeature([], tf.string)}
FEATURES |= {f"image/object/bbox/{side}": tf.io.VarLenFeature(tf.float32) for side in ("ymin", "xmin", "ymax", "xmax")}
FEATURES["image/object/class/label"] = tf.io.VarLenFeature(tf.int64)


def parse(record):
    f = tf.io.parse_single_example(record, FEATURES)
    image = tf.io.decode_jpeg(f["image/encoded"], channels=3)
    image = tf.cast(tf.ensure_shape(image, (64, 64, 3)), tf.float32) / 255.0
    ymin, xmin, ymax, xmax = (
        tf.sparse.to_dense(f[f"image/object/bbox/{side}"]) for side in ("ymin", "xmin", "ymax", "xmax")
    )
    classes = tf.cast(tf.sparse.to_dense(f["image/object/class/label"]), tf.int32) - 1   # labels start at 1

    cy = tf.cast(tf.minimum((ymin + ymax) / 2 * GRID, GRID - 1), tf.int32)
    cx = tf.cast(tf.minimum((xmin + xmax) / 2 * GRID, GRID - 1), tf.int32)
    where = tf.stack([cy, cx], axis=1)
    heat = tf.tensor_scatter_nd_max(
        tf.zeros((GRID, GRID, CLASSES)), tf.stack([cy, cx, classes], axis=1), tf.ones_like(ymin))
    size = tf.tensor_scatter_nd_update(
        tf.zeros((GRID, GRID, 2)), where, tf.stack([ymax - ymin, xmax - xmin], axis=1))
    return image, {"heat": heat, "size": size}


def center_focal(y_true, logits):
    p = tf.clip_by_value(tf.sigmoid(logits), 1e-4, 1 - 1e-4)
    positive = y_true * tf.square(1 - p) * tf.math.log(p)
    negative = (1 - y_true) * tf.square(p) * tf.math.log(1 - p)
    count = tf.maximum(tf.reduce_sum(y_true, axis=(1, 2, 3)), 1.0)
    return -tf.reduce_sum(positive + negative, axis=(1, 2, 3)) / count


def size_l1(y_true, y_pred):
    mask = tf.cast(tf.reduce_any(y_true > 0, axis=-1, keepdims=True), y_pred.dtype)
    count = tf.maximum(tf.reduce_sum(mask, axis=(1, 2, 3)), 1.0)
    return tf.reduce_sum(tf.abs(y_true - y_pred) * mask, axis=(1, 2, 3)) / count


train = tf.data.TFRecordDataset("data/boxes/train.tfrecord").map(parse).cache().shuffle(160).batch(16)
val = tf.data.TFRecordDataset("data/boxes/val.tfrecord").map(parse).batch(20)

inputs = tf.keras.Input((64, 64, 3))
x = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(inputs)
x = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(x)
x = layers.Conv2D(32, 3, padding="same", dilation_rate=2, activation="relu")(x)
# the bias makes an empty grid the first guess
heat = layers.Conv2D(CLASSES, 1, bias_initializer=tf.keras.initializers.Constant(-2.2), name="heat")(x)
size = layers.Conv2D(2, 1, name="size")(x)
model = tf.keras.Model(inputs, {"heat": heat, "size": size})
model.compile(tf.keras.optimizers.Adam(3e-3), loss={"heat": center_focal, "size": size_l1},
              loss_weights={"heat": 1.0, "size": 0.5})
model.fit(train, validation_data=val, epochs=5, verbose=2)
