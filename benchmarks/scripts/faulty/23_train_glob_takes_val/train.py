import os

import tensorflow as tf

DATA_DIR = "data/shapes"
TRAIN_PATTERN = os.path.join(DATA_DIR, "*.tfrecord")
VAL_PATTERN = os.path.join(DATA_DIR, "val-*.tfrecord")


def decode(serialized):
    features = tf.io.parse_single_example(serialized, {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.io.decode_image(features["image/encoded"], channels=3, expand_animations=False, dtype=tf.float32)
    image = tf.image.resize(image, (32, 32))
    return image, features["image/class/label"]


def get_ds(pattern, batch_size=40, shuffle=False):
    filenames = tf.io.gfile.glob(pattern)
    ds = tf.data.TFRecordDataset(filenames, num_parallel_reads=4)
    ds = ds.map(decode, num_parallel_calls=4)
    if shuffle:
        ds = ds.shuffle(400)
    return ds.batch(batch_size).prefetch(1)


def get_model():
    m = tf.keras.Sequential()
    m.add(tf.keras.layers.Input(shape=(32, 32, 3)))
    m.add(tf.keras.layers.Conv2D(24, 3, activation="relu", padding="same"))
    m.add(tf.keras.layers.MaxPool2D(2))
    m.add(tf.keras.layers.Conv2D(48, 3, activation="relu", padding="same"))
    m.add(tf.keras.layers.MaxPool2D(2))
    m.add(tf.keras.layers.Flatten())
    m.add(tf.keras.layers.Dense(4, activation="softmax"))
    return m


def main():
    model = get_model()
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    stop = tf.keras.callbacks.EarlyStopping(monitor="val_loss", patience=2, restore_best_weights=True)
    model.fit(get_ds(TRAIN_PATTERN, shuffle=True), validation_data=get_ds(VAL_PATTERN), epochs=6, callbacks=[stop])


if __name__ == "__main__":
    main()
