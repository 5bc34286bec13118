"""Images and labels as two datasets, zipped."""
import tensorflow as tf
from tensorflow.keras import layers, models

SEED_A, SEED_B = 1, 2
N_TRAIN = 300


def get_image(rec):
    f = tf.io.parse_single_example(rec, {"image": tf.io.FixedLenFeature([], tf.string)})
    img = tf.io.parse_tensor(f["image"], tf.uint8)
    return tf.cast(tf.ensure_shape(img, [24, 24, 3]), tf.float32) / 255.0


def get_label(rec):
    f = tf.io.parse_single_example(rec, {"label": tf.io.FixedLenFeature([], tf.int64)})
    return tf.one_hot(f["label"], 3)


def load_split(name, training=False):
    records = tf.data.TFRecordDataset("data/tensors/" + name + ".tfrecord")
    images = records.map(get_image, num_parallel_calls=tf.data.AUTOTUNE)
    labels = records.map(get_label, num_parallel_calls=tf.data.AUTOTUNE)
    if training:
        images = images.shuffle(N_TRAIN, seed=SEED_A)
        labels = labels.shuffle(N_TRAIN, seed=SEED_B)
    return tf.data.Dataset.zip((images, labels)).batch(30).prefetch(tf.data.AUTOTUNE)


train_data = load_split("train", training=True)
val_data = load_split("val")

model = models.Sequential([
    layers.Input((24, 24, 3)),
    layers.Conv2D(16, 3, activation="relu"),
    layers.MaxPooling2D(),
    layers.Conv2D(32, 3, activation="relu"),
    layers.GlobalMaxPooling2D(),
    layers.Dense(3, activation="softmax"),
])
model.compile(optimizer="adam", loss="categorical_crossentropy", metrics=["accuracy"])
model.fit(train_data, validation_data=val_data, epochs=3)
