import tensorflow as tf
import keras
from keras import layers

BATCH, EPOCHS = 32, 3


def parse(x):
    e = tf.io.parse_single_example(x, {"image": tf.io.FixedLenFeature([], tf.string),
                                       "label": tf.io.FixedLenFeature([], tf.int64)})
    img = tf.image.decode_jpeg(e["image"], channels=3)
    img = tf.reshape(img, [32, 32, 3])
    return tf.cast(img, tf.float32), e["label"]


normalize = lambda img, lab: (img / 127.5 - 1.0, lab)
flip = lambda img, lab: (tf.image.random_flip_left_right(img), lab)

train_ds = (
    tf.data.TFRecordDataset("data/shapes_sorted/train.tfrecord")
    .map(parse)
    .cache()
    .shuffle(320)
    .map(flip)
    .map(normalize)
    .batch(BATCH)
    .prefetch(tf.data.AUTOTUNE)
)
val_ds = (
    tf.data.TFRecordDataset("data/shapes_sorted/val.tfrecord")
    .map(parse)
    .batch(BATCH)
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential([
    keras.Input((32, 32, 3)),
    layers.Conv2D(16, 3, activation="relu"), layers.MaxPooling2D(),
    layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(),
    layers.Flatten(),
    layers.Dense(4),
])
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(train_ds, validation_data=val_ds, epochs=EPOCHS)
