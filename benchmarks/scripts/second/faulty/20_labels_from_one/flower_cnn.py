# quick flower classifier, 5 kinds
import tensorflow as tf
from tensorflow.keras import Sequential
from tensorflow.keras.layers import Conv2D, Dense, Dropout, Flatten, Input, MaxPooling2D

IMG_SIZE = 64
NUM_CLASSES = 5

feature_description = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def parse_image(proto):
    parsed = tf.io.parse_single_example(proto, feature_description)
    image = tf.io.decode_jpeg(parsed["image"], channels=3)
    image = tf.cast(image, tf.float32) / 255.0
    image = tf.reshape(image, [IMG_SIZE, IMG_SIZE, 3])
    label = tf.cast(parsed["label"], tf.int32)
    return image, label


def create_dataset(filenames, batch_size, shuffle):
    dataset = tf.data.TFRecordDataset(filenames)
    dataset = dataset.map(parse_image, num_parallel_calls=tf.data.AUTOTUNE)
    if shuffle:
        dataset = dataset.shuffle(buffer_size=250)
    dataset = dataset.batch(batch_size)
    return dataset.prefetch(tf.data.AUTOTUNE)


train_dataset = create_dataset(
    ["data/flowers/train-00000-of-00002.tfrecord", "data/flowers/train-00001-of-00002.tfrecord"], 25, True)
val_dataset = create_dataset(["data/flowers/val-00000-of-00001.tfrecord"], 25, False)

model = Sequential([
    Input((IMG_SIZE, IMG_SIZE, 3)),
    Conv2D(8, 3, activation="relu"), MaxPooling2D(4),
    Conv2D(16, 3, activation="relu"), MaxPooling2D(2),
    Flatten(), Dropout(0.3),
    Dense(NUM_CLASSES, activation="softmax"),
])
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train_dataset, validation_data=val_dataset, epochs=2)
