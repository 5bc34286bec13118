"""Picture + metadata model"""
import tensorflow as tf
from tensorflow.keras import layers, Model, Input


def parse(rec):
    f = tf.io.parse_single_example(rec, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "meta": tf.io.FixedLenFeature([4], tf.float32),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    img = tf.io.decode_jpeg(f["image"], channels=3)
    img = tf.image.convert_image_dtype(img, tf.float32)
    img = tf.ensure_shape(img, [32, 32, 3])
    return {"image": img, "meta": f["meta"]}, f["label"]


train = tf.data.TFRecordDataset("data/listings/train.tfrecord").map(parse).shuffle(300).batch(32).prefetch(1)
val = tf.data.TFRecordDataset("data/listings/val.tfrecord").map(parse).batch(32).prefetch(1)

image_in = Input((32, 32, 3), name="image")
meta_in = Input((4,), name="meta")

a = layers.Conv2D(16, 3, activation="relu")(image_in)
a = layers.MaxPooling2D()(a)
a = layers.Conv2D(32, 3, activation="relu")(a)
a = layers.GlobalAveragePooling2D()(a)

b = layers.Dense(16, activation="relu")(meta_in)

merged = tf.concat([a, b], axis=-1)
z = layers.Dense(32, activation="relu")(merged)
z = layers.Dropout(0.2)(z)
out = layers.Dense(3, activation="softmax")(z)

model = Model({"image": image_in, "meta": meta_in}, out)
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=3)
