import keras
import tensorflow as tf
from keras import layers


def parse(record):
    row = tf.io.parse_single_example(record, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "meta": tf.io.FixedLenFeature([4], tf.float32),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.io.decode_jpeg(row["image"], channels=3)
    return {"image": tf.ensure_shape(image, (32, 32, 3)), "meta": row["meta"]}, row["label"]


train = tf.data.TFRecordDataset("data/listings/train.tfrecord").map(parse, tf.data.AUTOTUNE)
val = tf.data.TFRecordDataset("data/listings/val.tfrecord").map(parse, tf.data.AUTOTUNE).batch(40)

meta_norm = layers.Normalization()
meta_norm.adapt(train.map(lambda x, _: x["meta"]).batch(64))

image = keras.Input((32, 32, 3), name="image", dtype="uint8")
meta = keras.Input((4,), name="meta")
a = layers.Rescaling(1 / 255)(image)
a = layers.Conv2D(16, 3, strides=2, activation="relu")(a)
a = layers.Conv2D(24, 3, strides=2, activation="relu")(a)
a = layers.GlobalAveragePooling2D()(a)
b = layers.Dense(16, activation="relu")(meta_norm(meta))
out = layers.Dense(3, activation="softmax")(layers.concatenate([a, b]))

model = keras.Model([image, meta], out)
model.compile(optimizer=keras.optimizers.Adam(5e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train.shuffle(300).batch(30).prefetch(2), validation_data=val, epochs=6, verbose=2)
