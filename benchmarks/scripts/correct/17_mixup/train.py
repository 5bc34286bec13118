import keras
import numpy as np
import tensorflow as tf
from keras import layers

AUTO = tf.data.AUTOTUNE
BATCH_SIZE = 32
NUM_CLASSES = 4
keras.utils.set_random_seed(8)


def parse(record):
    example = tf.io.parse_single_example(
        record,
        {"image/encoded": tf.io.FixedLenFeature([], tf.string), "image/class/label": tf.io.FixedLenFeature([], tf.int64)},
    )
    image = tf.image.decode_jpeg(example["image/encoded"], channels=3)
    image = tf.reshape(tf.cast(image, tf.float32) / 255.0, (32, 32, 3))
    return image, tf.one_hot(example["image/class/label"], NUM_CLASSES)


def sample_beta(size, a, b):
    gamma_1 = tf.random.gamma(shape=[size], alpha=a)
    gamma_2 = tf.random.gamma(shape=[size], alpha=b)
    return gamma_1 / (gamma_1 + gamma_2)


def mix_up(one, two, alpha=0.2):
    images_one, labels_one = one
    images_two, labels_two = two
    size = tf.shape(images_one)[0]
    lam = sample_beta(size, alpha, alpha)
    x_l = tf.reshape(lam, (size, 1, 1, 1))
    y_l = tf.reshape(lam, (size, 1))
    return images_one * x_l + images_two * (1 - x_l), labels_one * y_l + labels_two * (1 - y_l)


train_files = sorted(tf.io.gfile.glob("data/shapes/train-*.tfrecord"))
val_files = sorted(tf.io.gfile.glob("data/shapes/val-*.tfrecord"))
base = tf.data.TFRecordDataset(train_files).map(parse, AUTO).cache()
# two independent shuffles of the same images
ds_one = base.shuffle(BATCH_SIZE * 10).batch(BATCH_SIZE)
ds_two = base.shuffle(BATCH_SIZE * 10).batch(BATCH_SIZE)
train_ds = tf.data.Dataset.zip((ds_one, ds_two)).map(mix_up, num_parallel_calls=AUTO).prefetch(AUTO)
val_ds = tf.data.TFRecordDataset(val_files).map(parse, AUTO).batch(BATCH_SIZE)

model = keras.Sequential([
    layers.Input((32, 32, 3)),
    layers.Conv2D(16, 3, activation="relu"),
    layers.MaxPooling2D(),
    layers.Conv2D(32, 3, activation="relu"),
    layers.MaxPooling2D(),
    layers.Flatten(),
    layers.Dense(NUM_CLASSES, activation="softmax"),
])
model.compile(loss="categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
history = model.fit(train_ds, validation_data=val_ds, epochs=6, verbose=2)
print("best val accuracy", np.max(history.history["val_accuracy"]))
