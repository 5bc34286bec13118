"""Train SmallNet on serialized uint8 tensors."""
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

FILES = {"train": "data/tensors/train.tfrecord", "val": "data/tensors/val.tfrecord"}


def to_example(raw):
    f = tf.io.parse_single_example(raw, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    img = tf.io.parse_tensor(f["image"], tf.uint8)
    img.set_shape([24, 24, 3])
    # zero centred, roughly -1..1
    img = tf.cast(img - 128, tf.float32) / 128.0
    return img, f["label"]


class SmallNet(keras.Model):
    def __init__(self, classes):
        super().__init__()
        self.c1 = layers.Conv2D(16, 3, padding="same", activation="relu")
        self.c2 = layers.Conv2D(32, 3, padding="same", activation="relu")
        self.pool = layers.MaxPooling2D()
        self.gap = layers.GlobalAveragePooling2D()
        self.head = layers.Dense(classes)

    def call(self, x):
        x = self.pool(self.c1(x))
        x = self.pool(self.c2(x))
        return self.head(self.gap(x))


def pipeline(split):
    ds = tf.data.TFRecordDataset(FILES[split]).map(to_example, num_parallel_calls=4)
    if split == "train":
        ds = ds.shuffle(300)
    return ds.batch(32).prefetch(1)


if __name__ == "__main__":
    net = SmallNet(3)
    net.compile(
        optimizer="adam",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    net.fit(pipeline("train"), validation_data=pipeline("val"), epochs=3)
