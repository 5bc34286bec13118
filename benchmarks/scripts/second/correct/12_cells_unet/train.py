import tensorflow as tf
from tensorflow.keras import layers as L


def parse(x):
    d = tf.io.parse_single_example(x, {"image": tf.io.FixedLenFeature([], tf.string),
                                       "mask": tf.io.FixedLenFeature([], tf.string)})
    image = tf.io.decode_png(d["image"], channels=3)
    mask = tf.io.decode_png(d["mask"], channels=1)
    image.set_shape([48, 48, 3])
    mask.set_shape([48, 48, 1])
    return tf.cast(image, tf.float32) / 255., tf.cast(mask, tf.int32)


def flip(image, mask):
    # the same flip for the picture and its mask
    if tf.random.uniform([]) < 0.5:
        image, mask = tf.image.flip_left_right(image), tf.image.flip_left_right(mask)
    if tf.random.uniform([]) < 0.5:
        image, mask = tf.image.flip_up_down(image), tf.image.flip_up_down(mask)
    return image, mask


train = (tf.data.TFRecordDataset("data/cells/train.tfrecord").map(parse).cache()
         .shuffle(120).map(flip).batch(12).prefetch(tf.data.AUTOTUNE))
valid = tf.data.TFRecordDataset("data/cells/val.tfrecord").map(parse).batch(20)


def block(x, f):
    return L.Conv2D(f, 3, padding="same", activation="relu")(L.Conv2D(f, 3, padding="same", activation="relu")(x))


i = L.Input((48, 48, 3))
c1 = block(i, 8)
c2 = block(L.MaxPool2D()(c1), 16)
b = block(L.MaxPool2D()(c2), 24)
u2 = block(L.Concatenate()([L.Conv2DTranspose(16, 2, strides=2)(b), c2]), 16)
u1 = block(L.Concatenate()([L.Conv2DTranspose(8, 2, strides=2)(u2), c1]), 8)
o = L.Conv2D(3, 1)(u1)
unet = tf.keras.Model(i, o)

unet.compile(
    tf.keras.optimizers.Adam(3e-3),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy", tf.keras.metrics.MeanIoU(num_classes=3, sparse_y_pred=False, name="miou")],
)
unet.fit(train, validation_data=valid, epochs=4, verbose=2)
