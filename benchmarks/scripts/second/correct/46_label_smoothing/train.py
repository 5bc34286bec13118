import tensorflow as tf
from tensorflow import keras

CLASS_NAMES = tf.constant(["bird", "cat", "dog"])


def parse(serialized_example):
    features = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.string),
    }
    parsed = tf.io.parse_single_example(serialized_example, features)
    image = tf.io.decode_png(parsed["image"], channels=3)
    image = tf.image.resize(image, [40, 40]) / 255.0
    one_hot = tf.cast(parsed["label"] == CLASS_NAMES, tf.float32)
    return image, one_hot


def make(split, training):
    ds = tf.data.TFRecordDataset(tf.io.gfile.glob(f"data/animals/{split}-*.tfrecord"))
    if training:
        ds = ds.shuffle(240)
    return ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE).batch(24).prefetch(tf.data.AUTOTUNE)


model = keras.models.Sequential()
model.add(keras.layers.InputLayer(shape=(40, 40, 3)))
model.add(keras.layers.RandomFlip())
model.add(keras.layers.Conv2D(16, 5, strides=2, activation="relu"))
model.add(keras.layers.Conv2D(32, 3, strides=2, activation="relu"))
model.add(keras.layers.GlobalMaxPooling2D())
model.add(keras.layers.Dense(3, activation="softmax"))

model.compile(
    optimizer=keras.optimizers.Adam(learning_rate=4e-3),
    loss=keras.losses.CategoricalCrossentropy(label_smoothing=0.1),
    metrics=["accuracy"],
)
model.fit(make("train", True), epochs=6, validation_data=make("val", False), verbose=2)
