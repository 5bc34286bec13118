"""
Title: Step-wise learning rate schedule
"""
import keras
import tensorflow as tf
from keras import layers

BATCH_SIZE = 32
EPOCHS = 4
STEPS_PER_EPOCH = 320 // BATCH_SIZE


def parse(record):
    parsed = tf.io.parse_single_example(
        record,
        {
            "image/encoded": tf.io.FixedLenFeature([], tf.string),
            "image/class/label": tf.io.FixedLenFeature([], tf.int64),
        },
    )
    image = tf.io.decode_jpeg(parsed["image/encoded"], channels=3)
    image = tf.ensure_shape(image, (32, 32, 3))
    return image, parsed["image/class/label"]


def get_dataset(split):
    files = tf.data.Dataset.list_files(f"data/shapes/{split}-*.tfrecord", shuffle=split == "train")
    ds = files.interleave(tf.data.TFRecordDataset, cycle_length=4).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    if split == "train":
        ds = ds.shuffle(320)
    return ds.batch(BATCH_SIZE).prefetch(tf.data.AUTOTUNE)


model = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        layers.Rescaling(1.0 / 127.5, offset=-1),
        layers.Conv2D(16, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(32, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dense(4, activation="softmax"),
    ]
)

lr_schedule = keras.optimizers.schedules.PiecewiseConstantDecay(
    boundaries=[2, 3],
    values=[1e-3, 1e-4, 1e-5],
)
model.compile(
    optimizer=keras.optimizers.Adam(learning_rate=lr_schedule),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
model.fit(get_dataset("train"), validation_data=get_dataset("val"), epochs=EPOCHS)
