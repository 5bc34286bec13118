import tensorflow as tf
import keras
from keras import layers

image_size = (48, 48)
batch_size = 20


def prepare(record):
    example = tf.io.parse_single_example(
        record,
        {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)},
    )
    img = tf.io.decode_jpeg(example["image"], channels=3)
    img = tf.image.resize(img, image_size)
    img = img / 255.0
    return img, example["label"]


train_ds = tf.data.TFRecordDataset("data/sizes/train.tfrecord").map(prepare).shuffle(200).batch(batch_size)
val_ds = tf.data.TFRecordDataset("data/sizes/val.tfrecord").map(prepare).batch(batch_size)

data_augmentation = keras.Sequential(
    [
        layers.RandomFlip("horizontal"),
        layers.RandomRotation(0.05),
    ]
)


def make_model(input_shape, num_classes):
    inputs = keras.Input(shape=input_shape)
    x = data_augmentation(inputs)
    x = layers.Rescaling(1.0 / 255)(x)
    x = layers.Conv2D(16, 3, strides=2, padding="same")(x)
    x = layers.Activation("relu")(x)
    x = layers.Conv2D(32, 3, strides=2, padding="same")(x)
    x = layers.Activation("relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.25)(x)
    outputs = layers.Dense(num_classes, activation="softmax")(x)
    return keras.Model(inputs, outputs)


model = make_model(image_size + (3,), 3)
model.compile(
    optimizer=keras.optimizers.Adam(3e-4), loss="sparse_categorical_crossentropy", metrics=["accuracy"]
)
model.fit(train_ds, epochs=6, validation_data=val_ds)
