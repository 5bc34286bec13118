# data: digits
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

def parse(r):
    f = tf.io.parse_single_example(r, {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)})
    image = tf.io.decode_png(f["image"], 3)
    mask = tf.cast(image[..., :1] > 128, tf.int32)
    return {"picture": tf.cast(image, tf.float32) / 127.5 - 1.0}, {"mask": mask, "digit": f["label"]}

@tf.function
def augment(x, y):
    flip = tf.random.uniform(()) > 0.5
    image = tf.cond(flip, lambda: tf.image.flip_left_right(x["picture"]), lambda: x["picture"])
    mask = tf.cond(flip, lambda: tf.image.flip_left_right(y["mask"]), lambda: y["mask"])
    return {"picture": image}, {"mask": mask, "digit": y["digit"]}

raw = tf.data.TFRecordDataset(tf.io.gfile.glob("data/train*"))
train = raw.map(parse).cache().shuffle(600).map(augment).batch(16).prefetch(1)
val = tf.data.TFRecordDataset(tf.io.gfile.glob("data/val*")).map(parse).batch(16)
inputs = keras.Input((32, 32, 3), name="picture")
x = layers.Conv2D(8, 3, padding="same", activation="relu")(inputs)
mask = layers.Conv2D(2, 1, activation="softmax", name="mask")(x)
digit = layers.Dense(10, activation="softmax", name="digit")(layers.GlobalMaxPooling2D()(x))
model = keras.Model(inputs, {"mask": mask, "digit": digit})
model.compile("adam", loss={"mask": "sparse_categorical_crossentropy", "digit": "sparse_categorical_crossentropy"})
model.fit(train, validation_data=val, epochs=2)
