"""
Title: Transfer learning with MobileNetV2
"""
import keras
import tensorflow as tf
from keras import layers

IMAGE_SIZE = (64, 64)
LABELS = ["bird", "cat", "dog"]
lookup = layers.StringLookup(vocabulary=LABELS, num_oov_indices=0)

"""
## Data
"""


def load_example(record):
    sample = tf.io.parse_single_example(
        record,
        {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.string)},
    )
    image = tf.io.decode_png(sample["image"], channels=3)
    image = tf.image.resize(image, IMAGE_SIZE) / 255.0
    return image, lookup(sample["label"])


def make_dataset(split):
    files = tf.io.gfile.glob(f"data/animals/{split}-*.tfrecord")
    ds = tf.data.TFRecordDataset(files).map(load_example, num_parallel_calls=tf.data.AUTOTUNE).cache()
    if split == "train":
        ds = ds.shuffle(240)
    return ds.batch(24).prefetch(tf.data.AUTOTUNE)


"""
## Model: frozen backbone and a new head
"""

base_model = keras.applications.MobileNetV2(
    weights="imagenet", alpha=0.35, input_shape=(*IMAGE_SIZE, 3), include_top=False
)
base_model.trainable = False

inputs = keras.Input((*IMAGE_SIZE, 3))
x = layers.RandomFlip("horizontal")(inputs)
x = base_model(x, training=False)
x = layers.GlobalAveragePooling2D()(x)
x = layers.Dropout(0.2)(x)
outputs = layers.Dense(len(LABELS), activation="softmax")(x)
model = keras.Model(inputs, outputs)

model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
model.fit(make_dataset("train"), validation_data=make_dataset("val"), epochs=2)
