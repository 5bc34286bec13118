"""Tiny U-Net for cell segmentation (background, cell, nucleus)."""
import keras
import tensorflow as tf
from keras import layers

SIZE = 48
CLASSES = 3


def read_pair(record):
    f = tf.io.parse_single_example(record, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "mask": tf.io.FixedLenFeature([], tf.string),
    })
    image = tf.io.decode_png(f["image"], channels=3)
    mask = tf.io.decode_png(f["mask"], channels=1)
    image = tf.cast(tf.ensure_shape(image, [SIZE, SIZE, 3]), tf.float32) / 255.0
    mask = tf.cast(tf.ensure_shape(mask, [SIZE, SIZE, 1]), tf.int32)
    return image, mask


def augment(image, mask):
    image = tf.image.random_flip_left_right(image)
    mask = tf.image.random_flip_left_right(mask)
    image = tf.image.random_brightness(image, 0.1)
    return image, mask


def get_dataset(split, batch_size=12):
    ds = tf.data.TFRecordDataset(f"data/cells/{split}.tfrecord")
    ds = ds.map(read_pair, num_parallel_calls=tf.data.AUTOTUNE).cache()
    if split == "train":
        ds = ds.shuffle(120).map(augment, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(batch_size).prefetch(tf.data.AUTOTUNE)


def unet():
    inputs = keras.Input((SIZE, SIZE, 3))
    d1 = layers.Conv2D(16, 3, padding="same", activation="relu")(inputs)
    d2 = layers.Conv2D(32, 3, padding="same", activation="relu")(layers.MaxPooling2D()(d1))
    mid = layers.Conv2D(32, 3, padding="same", activation="relu")(layers.MaxPooling2D()(d2))
    u2 = layers.Concatenate()([layers.UpSampling2D()(mid), d2])
    u2 = layers.Conv2D(32, 3, padding="same", activation="relu")(u2)
    u1 = layers.Concatenate()([layers.UpSampling2D()(u2), d1])
    u1 = layers.Conv2D(16, 3, padding="same", activation="relu")(u1)
    return keras.Model(inputs, layers.Conv2D(CLASSES, 1, activation="softmax")(u1))


model = unet()
model.compile(
    optimizer=keras.optimizers.Adam(2e-3),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy", keras.metrics.MeanIoU(num_classes=CLASSES, sparse_y_pred=False, name="miou")],
)
model.fit(get_dataset("train"), validation_data=get_dataset("val"), epochs=3)
