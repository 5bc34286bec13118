import tensorflow as tf
from tensorflow import keras

IMG, CH = 48, 8


def decode(r):
    f = tf.io.parse_single_example(r, {k: tf.io.FixedLenFeature([], tf.string) for k in ("image", "mask")})
    image = tf.reshape(tf.io.decode_png(f["image"], 3), (IMG, IMG, 3))
    mask = tf.reshape(tf.io.decode_png(f["mask"], 1), (IMG, IMG, 1))
    return tf.cast(image, tf.float32) / 255.0, tf.cast(mask > 0, tf.float32)     # any cell against background


def soft_dice(y_true, y_pred, eps=1.0):
    axes = (1, 2, 3)
    inter = tf.reduce_sum(y_true * y_pred, axes)
    return (2 * inter + eps) / (tf.reduce_sum(y_true, axes) + tf.reduce_sum(y_pred, axes) + eps)


def bce_dice(y_true, y_pred):
    bce = tf.reduce_mean(keras.losses.binary_crossentropy(y_true, y_pred), axis=(1, 2))
    return bce + 1.0 - soft_dice(y_true, y_pred)


def dice(y_true, y_pred):
    return soft_dice(y_true, tf.round(y_pred))


train_ds = tf.data.TFRecordDataset("data/cells/train.tfrecord").map(decode).cache().shuffle(120).batch(10).prefetch(2)
val_ds = tf.data.TFRecordDataset("data/cells/val.tfrecord").map(decode).batch(20)

inputs = keras.Input((IMG, IMG, 3))
skip = keras.layers.Conv2D(CH, 3, padding="same", activation="relu")(inputs)
x = keras.layers.Conv2D(2 * CH, 3, strides=2, padding="same", activation="relu")(skip)
x = keras.layers.Conv2D(2 * CH, 3, dilation_rate=2, padding="same", activation="relu")(x)
x = keras.layers.UpSampling2D(interpolation="bilinear")(x)
x = keras.layers.Concatenate()([x, skip])
outputs = keras.layers.Conv2D(1, 1, activation="sigmoid")(x)

model = keras.Model(inputs, outputs)
model.compile(optimizer=keras.optimizers.Adam(4e-3), loss=bce_dice, metrics=[dice, keras.metrics.BinaryIoU([1], name="iou")])
model.fit(train_ds, validation_data=val_ds, epochs=4, verbose=2)
