import tensorflow as tf
from tensorflow.keras import layers

H = W = 48
N_CLASSES = 3


class SegNet(tf.keras.Model):
    def __init__(self, n_classes):
        super().__init__(name="segnet")
        self.down1 = layers.Conv2D(16, 3, padding="same", activation="relu")
        self.down2 = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")
        self.up = layers.Conv2DTranspose(16, 3, strides=2, padding="same", activation="relu")
        self.head = layers.Conv2D(n_classes, 1)
        self.softmax = layers.Softmax(axis=1)

    def call(self, x):
        skip = self.down1(x)
        x = self.up(self.down2(skip))
        return self.softmax(self.head(tf.concat([x, skip], axis=-1)))


def read(rec):
    d = tf.io.parse_single_example(rec, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "mask": tf.io.FixedLenFeature([], tf.string),
    })
    image = tf.image.decode_png(d["image"], channels=3)
    mask = tf.image.decode_png(d["mask"], channels=1)
    return tf.reshape(image, (H, W, 3)) / 255, tf.reshape(mask, (H, W))


def as_float(image, mask):
    return tf.cast(image, tf.float32), tf.cast(mask, tf.int32)


train_ds = tf.data.TFRecordDataset("data/cells/train.tfrecord").map(read).map(as_float).shuffle(120).batch(8)
val_ds = tf.data.TFRecordDataset("data/cells/val.tfrecord").map(read).map(as_float).batch(8)

net = SegNet(N_CLASSES)
net.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
net.fit(train_ds, validation_data=val_ds, epochs=5)
