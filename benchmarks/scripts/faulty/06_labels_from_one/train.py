"""
Title: Flower classification from TFRecords
Description: Train a small convnet from scratch.
"""

import keras
import tensorflow as tf
from keras import layers

"""
## Configuration
"""

IMAGE_SIZE = (64, 64)
BATCH_SIZE = 25
NUM_CLASSES = 5
EPOCHS = 3

"""
## Data loading
"""


def parse_example(serialized):
    parsed = tf.io.parse_single_example(
        serialized,
        {
            "image": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64),
        },
    )
    image = tf.io.decode_jpeg(parsed["image"], channels=3)
    image = tf.image.resize(image, IMAGE_SIZE)
    return image, parsed["label"]


def get_dataset(split, training):
    files = tf.data.Dataset.list_files(f"data/flowers/{split}-*.tfrecord", shuffle=training)
    ds = files.interleave(tf.data.TFRecordDataset, cycle_length=2)
    ds = ds.map(parse_example, num_parallel_calls=tf.data.AUTOTUNE)
    if training:
        ds = ds.shuffle(256)
    return ds.batch(BATCH_SIZE).prefetch(tf.data.AUTOTUNE)


train_ds = get_dataset("train", True)
val_ds = get_dataset("val", False)

"""
## Model
"""


def make_model():
    inputs = keras.Input(shape=IMAGE_SIZE + (3,))
    x = layers.Rescaling(1.0 / 255)(inputs)
    for filters in (16, 32, 64):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    x = layers.GlobalAveragePooling2D()(x)
    outputs = layers.Dense(NUM_CLASSES)(x)
    return keras.Model(inputs, outputs)


model = make_model()
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=[keras.metrics.SparseCategoricalAccuracy(name="acc")],
)
model.fit(train_ds, validation_data=val_ds, epochs=EPOCHS)
