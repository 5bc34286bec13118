import argparse

import keras
import tensorflow as tf
from keras import layers

ap = argparse.ArgumentParser()
ap.add_argument("--train", default="data/cells/train.tfrecord")
ap.add_argument("--val", default="data/cells/val.tfrecord")
ap.add_argument("--classes", type=int, default=3)
ap.add_argument("--epochs", type=int, default=6)
ap.add_argument("--bs", type=int, default=10)
a = ap.parse_args()


def parse(s):
    d = tf.io.parse_single_example(
        s, {"image": tf.io.FixedLenFeature([], tf.string), "mask": tf.io.FixedLenFeature([], tf.string)}
    )
    image = tf.cast(tf.io.decode_png(d["image"], channels=3), tf.float32) / 255.0
    mask = tf.squeeze(tf.io.decode_png(d["mask"], channels=1), -1)
    image = tf.ensure_shape(image, (48, 48, 3))
    mask = tf.ensure_shape(tf.one_hot(mask, a.classes), (48, 48, a.classes))
    return image, mask


def load(path, shuffle=False):
    ds = tf.data.TFRecordDataset(path).map(parse, num_parallel_calls=tf.data.AUTOTUNE).cache()
    if shuffle:
        ds = ds.shuffle(120)
    return ds.batch(a.bs).prefetch(tf.data.AUTOTUNE)


def conv_block(x, filters):
    x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.Activation("relu")(x)


inp = keras.Input((48, 48, 3))
e1 = conv_block(inp, 16)
e2 = conv_block(layers.MaxPooling2D()(e1), 32)
d1 = conv_block(layers.Concatenate()([layers.UpSampling2D()(e2), e1]), 16)
out = layers.Conv2D(a.classes, 1, activation="softmax")(d1)
model = keras.Model(inp, out)

model.compile(
    optimizer=keras.optimizers.Adam(2e-3),
    loss=keras.losses.CategoricalCrossentropy(),
    metrics=[keras.metrics.MeanIoU(num_classes=a.classes)],
)
model.fit(load(a.train, True), validation_data=load(a.val), epochs=a.epochs)
