"""Fully convolutional net on pictures in their own size: pictures are padded to 64x64,
and a mask of real pixels goes along, so that the padding does not enter the average."""
import tensorflow as tf
from tensorflow.keras import Input, Model, layers


def parse(r):
    f = tf.io.parse_single_example(r, {"image": tf.io.FixedLenFeature([], tf.string),
                                       "label": tf.io.FixedLenFeature([], tf.int64)})
    image = tf.image.convert_image_dtype(tf.io.decode_jpeg(f["image"], channels=3), tf.float32)
    real = tf.ones(tf.concat([tf.shape(image)[:2], [1]], axis=0))
    return {"image": image, "real": real}, f["label"]


shapes = ({"image": [64, 64, 3], "real": [64, 64, 1]}, [])
train = tf.data.TFRecordDataset("data/sizes/train.tfrecord").map(parse).cache().shuffle(200).padded_batch(20, shapes)
val = tf.data.TFRecordDataset("data/sizes/val.tfrecord").map(parse).padded_batch(30, shapes)

image, real = Input((None, None, 3), name="image"), Input((None, None, 1), name="real")
x, m = image, real
for f in (16, 32):
    x = layers.Conv2D(f, 3, strides=2, padding="same", activation="relu")(x)
    m = layers.MaxPool2D(2, padding="same")(m)
    x = layers.Multiply()([x, m])
total = layers.Lambda(lambda t: tf.reduce_sum(t, axis=[1, 2]), output_shape=lambda s: (s[0], s[-1]))
mean = layers.Lambda(lambda t: t[0] / t[1], output_shape=lambda s: s[0])([total(x), total(m)])
h = layers.Dense(32, activation="relu")(mean)
model = Model({"image": image, "real": real}, layers.Dense(3, activation="softmax")(h))
model.compile(tf.keras.optimizers.Adam(1e-2), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train.prefetch(1), validation_data=val, epochs=8, verbose=2)
