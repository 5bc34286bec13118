import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers, mixed_precision

mixed_precision.set_global_policy("mixed_bfloat16")

FEATURE_MAP = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64, default_value=-1),
}


def preprocess(serialized):
    sample = tf.io.parse_single_example(serialized, FEATURE_MAP)
    image = tf.io.decode_jpeg(sample["image/encoded"], channels=3)
    image = tf.image.resize(image, (32, 32)) / 255.0
    return image, sample["image/class/label"]


def dataset(pattern, shuffle_files):
    ds = tf.data.Dataset.list_files(pattern, shuffle=shuffle_files)
    ds = ds.interleave(lambda f: tf.data.TFRecordDataset(f), num_parallel_calls=2)
    ds = ds.map(preprocess, num_parallel_calls=2)
    if shuffle_files:
        ds = ds.shuffle(1000)
    return ds.batch(40).prefetch(2)


inputs = keras.Input((32, 32, 3))
x = layers.Conv2D(16, 3, activation="relu")(inputs)
x = layers.MaxPooling2D(2)(x)
x = layers.Conv2D(24, 3, activation="relu")(x)
x = layers.Flatten()(x)
x = layers.Dense(4)(x)
# softmax in float32, otherwise the loss is not accurate
outputs = layers.Activation("softmax", dtype="float32")(x)
model = keras.Model(inputs, outputs)

model.compile(keras.optimizers.Adam(2e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(
    dataset("data/shapes/train-*.tfrecord", True),
    validation_data=dataset("data/shapes/val-*.tfrecord", False),
    epochs=5,
    verbose=2,
)
