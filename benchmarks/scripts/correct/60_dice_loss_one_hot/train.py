import keras
import tensorflow as tf
from keras import layers, ops

SIZE, CLASSES = 32, 3


def decode(record):
    parsed = tf.io.parse_single_example(record, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "mask": tf.io.FixedLenFeature([], tf.string),
    })
    image = tf.io.decode_png(parsed["image"], channels=3)
    mask = tf.io.decode_png(parsed["mask"], channels=1)
    image = tf.image.resize(image, (SIZE, SIZE)) / 127.5 - 1.0
    mask = tf.image.resize(mask, (SIZE, SIZE), method="nearest")
    return image, tf.one_hot(tf.squeeze(mask, -1), CLASSES)


train = tf.data.TFRecordDataset("data/cells/train.tfrecord").map(decode).cache().shuffle(120).batch(15)
val = tf.data.TFRecordDataset("data/cells/val.tfrecord").map(decode).batch(20)


@keras.saving.register_keras_serializable()
def soft_dice(y_true, y_pred, epsilon=1e-6):
    """One minus the mean Dice score over classes, per image."""
    overlap = ops.sum(y_true * y_pred, axis=(1, 2))
    size = ops.sum(y_true, axis=(1, 2)) + ops.sum(y_pred, axis=(1, 2))
    return 1.0 - ops.mean((2.0 * overlap + epsilon) / (size + epsilon), axis=-1)


def combined(y_true, y_pred):
    cross_entropy = ops.mean(keras.losses.categorical_crossentropy(y_true, y_pred), axis=(1, 2))
    return cross_entropy + soft_dice(y_true, y_pred)


inputs = keras.Input((SIZE, SIZE, 3))
x = layers.Conv2D(16, 3, padding="same", activation="relu")(inputs)
skip = x
x = layers.MaxPooling2D()(x)
x = layers.Conv2D(32, 3, padding="same", activation="relu")(x)
x = layers.Conv2DTranspose(16, 2, strides=2, activation="relu")(x)
x = layers.Add()([x, skip])
outputs = layers.Conv2D(CLASSES, 1, activation="softmax")(x)
model = keras.Model(inputs, outputs)
model.compile(
    optimizer=keras.optimizers.AdamW(5e-3),
    loss=combined,
    metrics=[keras.metrics.OneHotMeanIoU(num_classes=CLASSES, name="miou"), soft_dice],
)
model.fit(train, validation_data=val, epochs=6, verbose=2)
