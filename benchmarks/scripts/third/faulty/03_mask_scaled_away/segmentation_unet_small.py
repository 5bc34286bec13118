"""
Title: Cell segmentation with a small U-Net
Author: [anon](https://github.com/)
Description: Pixel-wise classification into background and two kinds of cells.
"""
import keras
import tensorflow as tf
from keras import layers

"""
## Reading the data
"""


def parse(record):
    example = tf.io.parse_single_example(
        record,
        {"image": tf.io.FixedLenFeature([], tf.string), "mask": tf.io.FixedLenFeature([], tf.string)},
    )
    image = tf.io.decode_png(example["image"], channels=3)
    mask = tf.io.decode_png(example["mask"], channels=1)
    image = tf.image.convert_image_dtype(image, tf.float32)
    mask = tf.image.convert_image_dtype(mask, tf.float32)
    image = tf.image.resize(image, (48, 48))
    mask = tf.image.resize(mask, (48, 48), method="nearest")
    return image, tf.cast(mask, tf.int32)


def make_dataset(path, shuffle=False):
    ds = tf.data.TFRecordDataset(path).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    if shuffle:
        ds = ds.shuffle(120)
    return ds.batch(16).prefetch(tf.data.AUTOTUNE)


train_ds = make_dataset("data/cells/train.tfrecord", shuffle=True)
val_ds = make_dataset("data/cells/val.tfrecord")

"""
## The model
"""


def get_model(num_classes=3):
    inputs = keras.Input((48, 48, 3))
    a = layers.Conv2D(8, 3, padding="same", activation="relu")(inputs)
    x = layers.MaxPooling2D()(a)
    b = layers.Conv2D(16, 3, padding="same", activation="relu")(x)
    x = layers.UpSampling2D()(b)
    x = layers.Concatenate()([x, a])
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    outputs = layers.Conv2D(num_classes, 1, activation="softmax")(x)
    return keras.Model(inputs, outputs)


model = get_model()
model.compile(
    optimizer=keras.optimizers.Adam(5e-3),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)

"""
## Training
"""
model.fit(train_ds, validation_data=val_ds, epochs=4, verbose=2)

image, mask = next(iter(val_ds))
pred = tf.argmax(model.predict(image, verbose=0), -1)
print("classes in the prediction:", sorted(set(pred.numpy().ravel().tolist())))
