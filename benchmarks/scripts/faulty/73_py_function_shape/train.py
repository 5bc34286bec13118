import numpy as np
import tensorflow as tf

SIZE = 64


def np_cutout(image):
    image = image.numpy().copy()
    y, x = np.random.randint(0, SIZE - 12, 2)
    image[y:y + 12, x:x + 12] = 0.0
    return image


def parse(s):
    d = tf.io.parse_single_example(s, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.image.decode_jpeg(d["image"], channels=3)
    image = tf.image.convert_image_dtype(image, tf.float32)
    return tf.reshape(image, [SIZE, SIZE, 3]), d["label"] - 1


def augment(image, label):
    image = tf.py_function(np_cutout, [image], tf.float32)
    return image, label


train = tf.data.TFRecordDataset(tf.io.gfile.glob("data/flowers/train-*")).map(parse).cache().shuffle(250)
train = train.map(augment).batch(25).prefetch(1)
val = tf.data.TFRecordDataset(tf.io.gfile.glob("data/flowers/val-*")).map(parse).batch(25)

model = tf.keras.Sequential([
    tf.keras.layers.Conv2D(16, 3, activation="relu"),
    tf.keras.layers.MaxPooling2D(4),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(5, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=4)
