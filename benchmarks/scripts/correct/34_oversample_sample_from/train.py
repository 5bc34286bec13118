import math

import tensorflow as tf

BATCH_SIZE = 30
NEGATIVES = 270     # of 300 training records


def decode(record):
    features = tf.io.parse_single_example(record, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "target": tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.io.decode_png(features["image"], channels=3)
    image = tf.image.convert_image_dtype(image, tf.float32)
    image.set_shape((32, 32, 3))
    return image, tf.cast(features["target"], tf.float32)


def augment(image, label):
    image = tf.image.random_flip_left_right(image)
    return tf.image.random_contrast(image, 0.9, 1.1), label


train = tf.data.TFRecordDataset("data/cats_dogs/train.tfrecord").map(decode).cache()
negative = train.filter(lambda _, label: label < 0.5).shuffle(300).repeat()
positive = train.filter(lambda _, label: label > 0.5).shuffle(300).repeat()
balanced = tf.data.Dataset.sample_from_datasets([negative, positive], weights=[0.5, 0.5], seed=3)
balanced = balanced.map(augment, tf.data.AUTOTUNE).batch(BATCH_SIZE).prefetch(2)

# The validation split keeps its natural balance.
val = tf.data.TFRecordDataset("data/cats_dogs/val.tfrecord").map(decode).batch(BATCH_SIZE).cache()

# Balanced data: an epoch is the number of batches needed to see each negative example once.
steps = math.ceil(2.0 * NEGATIVES / BATCH_SIZE)

model = tf.keras.Sequential([
    tf.keras.Input((32, 32, 3)),
    tf.keras.layers.Conv2D(16, 3, activation="relu"),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Conv2D(16, 3, activation="relu"),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(1),
])
model.compile(
    optimizer="adam",
    loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=[tf.keras.metrics.AUC(curve="PR", name="prc", from_logits=True)],
)
early_stopping = tf.keras.callbacks.EarlyStopping(monitor="val_prc", mode="max", patience=3, restore_best_weights=True)
model.fit(balanced, epochs=4, steps_per_epoch=steps, validation_data=val, callbacks=[early_stopping], verbose=2)
