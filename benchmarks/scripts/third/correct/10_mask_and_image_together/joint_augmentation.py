"""
Title: Joint augmentation of images and masks
Description: Stack image and mask on the channel axis, transform both at once, and take them apart.
"""
import keras
import tensorflow as tf
from keras import layers


def parse(record):
    row = tf.io.parse_single_example(
        record, {"image": tf.io.FixedLenFeature([], tf.string), "mask": tf.io.FixedLenFeature([], tf.string)}
    )
    image = tf.io.decode_png(row["image"], channels=3)
    mask = tf.io.decode_png(row["mask"], channels=1)
    return tf.ensure_shape(image, (48, 48, 3)), tf.ensure_shape(mask, (48, 48, 1))


"""
## Both at once
"""


def augment(image, mask):
    both = tf.concat([image, mask], axis=-1)
    both = tf.image.random_flip_left_right(both)
    both = tf.image.rot90(both, tf.random.uniform([], 0, 4, tf.int32))
    both = tf.image.random_crop(both, (40, 40, 4))
    image, mask = both[..., :3], both[..., 3:]
    image = tf.image.random_hue(image, 0.02)
    return tf.image.resize(image, (48, 48)), tf.image.resize(mask, (48, 48), method="nearest")


train_ds = tf.data.TFRecordDataset("data/cells/train.tfrecord").map(parse).cache().shuffle(120).map(augment).batch(12)
val_ds = tf.data.TFRecordDataset("data/cells/val.tfrecord").map(parse).batch(20)

"""
## Model
"""
inputs = keras.Input((48, 48, 3))
x = layers.Rescaling(1 / 255.0)(inputs)
for filters in (16, 16):
    x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
outputs = layers.Conv2D(3, 1, activation="softmax")(x)
model = keras.Model(inputs, outputs)
model.compile(keras.optimizers.Adam(1e-2), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=5, verbose=2)
