"""Single object localisation: regress one box per picture."""
import tensorflow as tf
from tensorflow.keras import layers

IMAGE_SIZE = 64


def parse(example):
    e = tf.io.parse_single_example(example, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "bbox": tf.io.FixedLenFeature([4], tf.float32),
    })
    image = tf.io.decode_jpeg(e["image"], channels=3)
    image = tf.reshape(image, [IMAGE_SIZE, IMAGE_SIZE, 3])
    box = e["bbox"] * IMAGE_SIZE
    return tf.cast(image, tf.float32) / 255.0, box


class Localizer(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.backbone = tf.keras.Sequential([
            layers.Conv2D(16, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
        ])
        self.box_head = layers.Dense(4, activation="sigmoid")

    def call(self, images):
        return self.box_head(self.backbone(images))


def make_ds(split):
    ds = tf.data.TFRecordDataset(f"data/single_box/{split}.tfrecord")
    ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE).cache()
    if split == "train":
        ds = ds.shuffle(200)
    return ds.batch(20).prefetch(tf.data.AUTOTUNE)


def main():
    model = Localizer()
    model.compile(optimizer="adam", loss=tf.keras.losses.Huber(), metrics=["mae"])
    model.fit(make_ds("train"), validation_data=make_ds("val"), epochs=3)


if __name__ == "__main__":
    main()
