# Localization with flips. The box is [ymin, xmin, ymax, xmax], so a horizontal flip swaps 1 - xmax and 1 - xmin.
import tensorflow as tf
from tensorflow.keras import layers


def parse(serialized):
    row = tf.io.parse_single_example(serialized, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "bbox": tf.io.FixedLenFeature([4], tf.float32),
    })
    image = tf.reshape(tf.io.decode_jpeg(row["image"], channels=3), [64, 64, 3])
    return tf.cast(image, tf.float32) / 255.0, row["bbox"]


def flip(image, box):
    if tf.random.uniform([]) > 0.5:
        image = image[:, ::-1]
        box = tf.gather(box, [0, 3, 2, 1]) * [1.0, -1.0, 1.0, -1.0] + [0.0, 1.0, 0.0, 1.0]
    return image, box


def iou(a, b):
    top = tf.maximum(a[:, :2], b[:, :2])
    bottom = tf.minimum(a[:, 2:], b[:, 2:])
    inter = tf.reduce_prod(tf.maximum(bottom - top, 0.0), -1)
    area = lambda v: tf.reduce_prod(tf.maximum(v[:, 2:] - v[:, :2], 0.0), -1)
    return inter / (area(a) + area(b) - inter + 1e-6)


train = tf.data.TFRecordDataset("data/single_box/train.tfrecord").map(parse).cache().shuffle(200).map(flip).batch(20)
val = tf.data.TFRecordDataset("data/single_box/val.tfrecord").map(parse).batch(50)

model = tf.keras.Sequential([
    layers.Input((64, 64, 3)),
    layers.Conv2D(16, 3, strides=2, activation="relu"),
    layers.Conv2D(32, 3, strides=2, activation="relu"),
    layers.Conv2D(32, 3, strides=2, activation="relu"),
    layers.Flatten(),
    layers.Dense(64, activation="relu"),
    layers.Dense(4),
])
model.compile(optimizer="adam", loss=tf.keras.losses.Huber(delta=0.1), metrics=[iou])
model.fit(train, validation_data=val, epochs=8, verbose=2)
