import tensorflow as tf
import keras
from keras import layers

SIZE = 64


def load(path, training=False):
    def parse(rec):
        p = tf.io.parse_single_example(rec, {
            "image": tf.io.FixedLenFeature([], tf.string),
            "bbox": tf.io.FixedLenFeature([4], tf.float32),
            "label": tf.io.FixedLenFeature([], tf.int64),
        })
        image = tf.io.decode_jpeg(p["image"], channels=3)
        image = tf.cast(tf.ensure_shape(image, [SIZE, SIZE, 3]), tf.float32)
        return image, {"bbox": p["bbox"], "label": p["label"]}

    ds = tf.data.TFRecordDataset(path).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    if training:
        ds = ds.shuffle(200)
    return ds.batch(20).prefetch(tf.data.AUTOTUNE)


inputs = keras.Input((SIZE, SIZE, 3))
x = layers.Rescaling(1 / 255)(inputs)
for filters in (16, 32, 32):
    x = layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(x)
x = layers.Flatten()(x)
x = layers.Dense(64, activation="relu")(x)
box = layers.Dense(4, activation="sigmoid", name="box")(x)
cls = layers.Dense(3, activation="softmax", name="cls")(x)

model = keras.Model(inputs, {"box": box, "cls": cls})
model.compile(
    optimizer="adam",
    loss={"box": keras.losses.Huber(), "cls": keras.losses.SparseCategoricalCrossentropy()},
    metrics={"cls": ["accuracy"]},
)
model.fit(
    load("data/single_box/train.tfrecord", training=True),
    validation_data=load("data/single_box/val.tfrecord"),
    epochs=2,
)
