"""Pretrain a small backbone on `shapes`, then transfer it to `flowers` in two stages."""
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

SIZE = 64


def shapes(split, train=False):
    def fn(r):
        e = tf.io.parse_single_example(r, {
            "image/encoded": tf.io.FixedLenFeature([], tf.string),
            "image/class/label": tf.io.FixedLenFeature([], tf.int64)})
        im = tf.image.resize(tf.io.decode_jpeg(e["image/encoded"], channels=3), (SIZE, SIZE))
        return im, e["image/class/label"]
    ds = tf.data.TFRecordDataset(tf.io.gfile.glob(f"data/shapes/{split}-*")).map(fn).cache()
    return (ds.shuffle(320) if train else ds).batch(32).prefetch(2)


def flowers(split, train=False):
    def fn(r):
        e = tf.io.parse_single_example(r, {
            "image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)})
        im = tf.cast(tf.io.decode_jpeg(e["image"], channels=3), tf.float32)
        return tf.ensure_shape(im, (SIZE, SIZE, 3)), e["label"] - 1
    ds = tf.data.TFRecordDataset(tf.io.gfile.glob(f"data/flowers/{split}-*")).map(fn).cache()
    return (ds.shuffle(250) if train else ds).batch(25).prefetch(2)


def make_backbone():
    i = keras.Input((SIZE, SIZE, 3))
    x = layers.Rescaling(1 / 127.5, offset=-1.0)(i)
    for f in (16, 32, 32):
        x = layers.Conv2D(f, 3, strides=2, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization(momentum=0.8)(x)
        x = layers.ReLU()(x)
    return keras.Model(i, layers.GlobalMaxPooling2D()(x), name="backbone")


def compile_for(model, lr):
    model.compile(keras.optimizers.Adam(lr),
                  keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])


backbone = make_backbone()
source = keras.Sequential([backbone, layers.Dense(4)])
compile_for(source, 2e-3)
source.fit(shapes("train", True), validation_data=shapes("val"), epochs=3, verbose=2)

# Stage 1: only the head learns; the backbone's batch statistics stay as they are
backbone.trainable = False
inputs = keras.Input((SIZE, SIZE, 3))
features = backbone(inputs, training=False)
target = keras.Model(inputs, layers.Dense(5)(layers.Dropout(0.1)(features)))
compile_for(target, 1e-2)
target.fit(flowers("train", True), validation_data=flowers("val"), epochs=3, verbose=2)

# Stage 2: all weights, a hundredth of the rate; compile again so that the change counts
backbone.trainable = True
compile_for(target, 1e-4)
target.fit(flowers("train", True), validation_data=flowers("val"), epochs=2, verbose=2)
