# data: digits
import tensorflow as tf
from tensorflow.keras.applications import MobileNetV2
from tensorflow.keras.applications.mobilenet_v2 import preprocess_input
from tensorflow.keras import layers, models

IMG = 96

def _parse(proto):
    keys = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    p = tf.io.parse_single_example(proto, keys)
    img = tf.image.decode_png(p["image"], channels=3)
    img = tf.image.resize(img, [IMG, IMG])
    img = preprocess_input(img)
    return img, p["label"]

train = tf.data.TFRecordDataset(["train-00000-of-00002.tfrecord", "train-00001-of-00002.tfrecord"])
train = train.shuffle(1000).map(_parse).batch(16).prefetch(1)
val = tf.data.TFRecordDataset(["val-00000-of-00001.tfrecord"]).map(_parse).batch(16)

base = MobileNetV2(input_shape=(IMG, IMG, 3), alpha=0.35, include_top=False, weights="imagenet")
base.trainable = False
model = models.Sequential([base, layers.GlobalAveragePooling2D(), layers.Dropout(0.2), layers.Dense(10, activation="softmax")])
model.compile(optimizer=tf.keras.optimizers.Adam(1e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=5)
base.trainable = True
for layer in base.layers[:-20]:
    layer.trainable = False
model.compile(optimizer=tf.keras.optimizers.Adam(1e-5), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=10, initial_epoch=5)
model.save("finetuned.keras")
