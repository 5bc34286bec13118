import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

TTA = 4


def parse(rec):
    ex = tf.io.parse_single_example(rec, {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
        "image/filename": tf.io.FixedLenFeature([], tf.string),
    })
    image = tf.io.decode_jpeg(ex["image/encoded"], channels=3)
    image = tf.cast(tf.ensure_shape(image, [32, 32, 3]), tf.float32) / 255.
    return image, ex["image/class/label"], ex["image/filename"]


def augment(image):
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_flip_up_down(image)
    image = tf.image.resize_with_crop_or_pad(image, 36, 36)
    return tf.image.random_crop(image, [32, 32, 3])


def records(split):
    return tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(f"data/shapes/{split}-*"))).map(parse)


train = records("train").map(lambda im, lab, _: (im, lab)).cache().shuffle(320)
train = train.map(lambda im, lab: (augment(im), lab)).batch(32).prefetch(1)
val = records("val").map(lambda im, lab, _: (im, lab)).batch(40)

model = tf.keras.Sequential([
    layers.Input((32, 32, 3)),
    layers.Conv2D(16, 3, strides=2, activation="relu"),
    layers.Conv2D(32, 3, strides=2, activation="relu"),
    layers.Flatten(),
    layers.Dense(32, activation="relu"),
    layers.Dense(4, activation="softmax"),
])
model.compile(tf.keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=6, verbose=2)

# The same pictures four times, each time with other random crops, in the order of the file (no shuffle)
test_images = records("test").map(lambda im, lab, name: im)
probs = np.mean(
    [model.predict(test_images.map(augment).batch(40), verbose=0) for _ in range(TTA)], axis=0
)
names = [n.decode() for n in records("test").map(lambda im, lab, name: name).as_numpy_iterator()]
truth = np.array(list(records("test").map(lambda im, lab, name: lab).as_numpy_iterator()))
print("TTA accuracy:", (probs.argmax(1) == truth).mean())
for n, p in list(zip(names, probs))[:3]:
    print(n, p.argmax(), round(float(p.max()), 3))
