# Transfer learning with tf.data and TFRecords, part 1
# We prepare the pictures as MobileNetV2 wants them, and start with a small network of our own;
# part 2 swaps in the real thing.
import tensorflow as tf
from tensorflow.keras.applications.mobilenet_v2 import preprocess_input

NUM_CLASSES = 5


def parse_record(record):
    parsed = tf.io.parse_single_example(record, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.io.decode_jpeg(parsed["image"], channels=3)
    image = tf.reshape(image, [64, 64, 3])
    image = tf.cast(image, tf.float32) / 255.0
    image = preprocess_input(image)
    label = parsed["label"] - 1  # labels in the file start at 1
    return image, label


def load(pattern, shuffle):
    files = tf.data.Dataset.list_files(pattern, shuffle=shuffle)
    ds = files.interleave(tf.data.TFRecordDataset).map(parse_record)
    if shuffle:
        ds = ds.shuffle(250)
    return ds.batch(25).prefetch(tf.data.AUTOTUNE)


train = load("data/flowers/train-*.tfrecord", True)
val = load("data/flowers/val-*.tfrecord", False)

base = tf.keras.Sequential([
    tf.keras.layers.Input((64, 64, 3)),
    tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu6"),
    tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu6"),
    tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu6"),
])
model = tf.keras.Sequential([
    base,
    tf.keras.layers.GlobalMaxPooling2D(),
    tf.keras.layers.Dropout(0.2),
    tf.keras.layers.Dense(NUM_CLASSES, activation="softmax"),
])
model.compile(optimizer=tf.keras.optimizers.Adam(3e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=6, verbose=2)
