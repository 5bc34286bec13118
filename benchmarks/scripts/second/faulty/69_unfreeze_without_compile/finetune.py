"""Pretrain a backbone on shapes, then transfer it to flowers and fine-tune."""
import glob
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

SIZE = 32


def image_ds(pattern, image_key, label_key, offset, training):
    def parse(rec):
        e = tf.io.parse_single_example(rec, {
            image_key: tf.io.FixedLenFeature([], tf.string),
            label_key: tf.io.FixedLenFeature([], tf.int64),
        })
        img = tf.image.resize(tf.io.decode_jpeg(e[image_key], channels=3), [SIZE, SIZE])
        return img / 255.0, e[label_key] - offset

    ds = tf.data.TFRecordDataset(sorted(glob.glob(pattern))).map(parse, num_parallel_calls=tf.data.AUTOTUNE).cache()
    if training:
        ds = ds.shuffle(400)
    return ds.batch(25).prefetch(tf.data.AUTOTUNE)


def backbone():
    return keras.Sequential([
        keras.Input((SIZE, SIZE, 3)),
        layers.Conv2D(16, 3, activation="relu"), layers.MaxPooling2D(),
        layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(),
        layers.Flatten(),
    ], name="backbone")


base = backbone()
source = keras.Sequential([base, layers.Dense(4, activation="softmax")])
source.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
source.fit(image_ds("data/shapes/train-*", "image/encoded", "image/class/label", 0, True), epochs=2, verbose=2)

# new task
base.trainable = False
model = keras.Sequential([base, layers.Dropout(0.2), layers.Dense(5, activation="softmax")])
model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
train = image_ds("data/flowers/train-*", "image", "label", 1, True)
val = image_ds("data/flowers/val-*", "image", "label", 1, False)
model.fit(train, validation_data=val, epochs=2, verbose=2)

# fine-tune all layers
base.trainable = True
model.optimizer.learning_rate.assign(1e-4)
model.fit(train, validation_data=val, epochs=2, verbose=2)
