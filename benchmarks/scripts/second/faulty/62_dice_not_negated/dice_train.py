import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers


def parse(rec):
    e = tf.io.parse_single_example(rec, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "mask": tf.io.FixedLenFeature([], tf.string),
    })
    image = tf.image.convert_image_dtype(tf.io.decode_png(e["image"], channels=3), tf.float32)
    mask = tf.io.decode_png(e["mask"], channels=1)
    # any kind of cell against background
    fg = tf.cast(mask > 0, tf.float32)
    return tf.ensure_shape(image, [48, 48, 3]), tf.ensure_shape(fg, [48, 48, 1])


def dice_loss(y_true, y_pred, eps=1.0):
    axes = (1, 2, 3)
    inter = tf.reduce_sum(y_true * y_pred, axis=axes)
    total = tf.reduce_sum(y_true, axis=axes) + tf.reduce_sum(y_pred, axis=axes)
    return tf.reduce_mean((2.0 * inter + eps) / (total + eps))


class SegNet(keras.Model):
    def __init__(self, width=16):
        super().__init__()
        self.enc1 = layers.Conv2D(width, 3, padding="same", activation="relu")
        self.enc2 = layers.Conv2D(width * 2, 3, strides=2, padding="same", activation="relu")
        self.up = layers.Conv2DTranspose(width, 3, strides=2, padding="same", activation="relu")
        self.out = layers.Conv2D(1, 1, activation="sigmoid")

    def call(self, x):
        a = self.enc1(x)
        b = self.up(self.enc2(a))
        return self.out(tf.concat([a, b], axis=-1))


def dataset(split):
    ds = tf.data.TFRecordDataset(f"data/cells/{split}.tfrecord").map(parse).cache()
    if split == "train":
        ds = ds.shuffle(120)
    return ds.batch(12).prefetch(tf.data.AUTOTUNE)


model = SegNet()
model.compile(
    optimizer=keras.optimizers.Adam(2e-3),
    loss=dice_loss,
    metrics=[keras.metrics.BinaryIoU(target_class_ids=[1], threshold=0.5, name="iou")],
)
model.fit(dataset("train"), validation_data=dataset("val"), epochs=3)
