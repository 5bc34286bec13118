# data: digits
"""Image classification from TFRecords, from scratch."""
import keras
from keras import layers
import tensorflow as tf
from functools import partial

AUTOTUNE = tf.data.AUTOTUNE
BATCH_SIZE = 32


def decode_image(image):
    image = tf.io.decode_png(image, channels=3)
    image = tf.cast(image, tf.float32)
    image = tf.image.resize(image, (32, 32))
    return image


def read_tfrecord(example, labeled):
    tfrecord_format = (
        {
            "image": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64),
        }
        if labeled
        else {"image": tf.io.FixedLenFeature([], tf.string)}
    )
    example = tf.io.parse_single_example(example, tfrecord_format)
    image = decode_image(example["image"])
    if labeled:
        label = tf.cast(example["label"], tf.int32)
        return image, tf.one_hot(label, 10)
    return image


def load_dataset(filenames, labeled=True):
    ignore_order = tf.data.Options()
    ignore_order.deterministic = False
    dataset = tf.data.TFRecordDataset(filenames)
    dataset = dataset.with_options(ignore_order)
    dataset = dataset.map(partial(read_tfrecord, labeled=labeled), num_parallel_calls=AUTOTUNE)
    return dataset


def get_dataset(filenames, labeled=True, training=False):
    dataset = load_dataset(filenames, labeled=labeled)
    if training:
        dataset = dataset.shuffle(2048)
    dataset = dataset.batch(BATCH_SIZE)
    dataset = dataset.prefetch(buffer_size=AUTOTUNE)
    return dataset


train_dataset = get_dataset(tf.io.gfile.glob("tfrecords/train*.tfrecord"), training=True)
valid_dataset = get_dataset(tf.io.gfile.glob("tfrecords/val*.tfrecord"))

initial_learning_rate = 0.01
lr_schedule = keras.optimizers.schedules.ExponentialDecay(
    initial_learning_rate, decay_steps=200, decay_rate=0.96, staircase=True
)
checkpoint_cb = keras.callbacks.ModelCheckpoint("digits_model.keras", save_best_only=True)
early_stopping_cb = keras.callbacks.EarlyStopping(patience=10, restore_best_weights=True)


def make_model():
    inputs = keras.Input(shape=(32, 32, 3))
    x = layers.RandomRotation(0.02)(inputs)
    x = layers.Rescaling(1.0 / 255)(x)
    x = layers.Conv2D(16, 3, strides=2, padding="same")(x)
    x = layers.BatchNormalization()(x)
    x = layers.Activation("relu")(x)
    x = layers.SeparableConv2D(32, 3, padding="same")(x)
    x = layers.BatchNormalization()(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.2)(x)
    outputs = layers.Dense(10, activation="softmax")(x)
    return keras.Model(inputs, outputs)


model = make_model()
model.compile(
    optimizer=keras.optimizers.Adam(learning_rate=lr_schedule),
    loss="categorical_crossentropy",
    metrics=[keras.metrics.CategoricalAccuracy(name="acc"), keras.metrics.TopKCategoricalAccuracy(k=3)],
)
history = model.fit(
    train_dataset,
    epochs=20,
    validation_data=valid_dataset,
    callbacks=[checkpoint_cb, early_stopping_cb],
)
image_batch, label_batch = next(iter(valid_dataset))
predictions = model.predict(image_batch)
print(predictions.argmax(1)[:5], label_batch.numpy().argmax(1)[:5])
