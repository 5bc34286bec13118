"""Keras reads a folder of images; no TFRecords at all."""

import tensorflow as tf
from tensorflow import keras

SIZE = (32, 32)

train = keras.utils.image_dataset_from_directory(
    "folders/train", label_mode="int", image_size=SIZE, batch_size=16, shuffle=True, seed=1
)
val = keras.utils.image_dataset_from_directory(
    "folders/val", label_mode="int", image_size=SIZE, batch_size=16, shuffle=False
)
class_names = train.class_names

flip = keras.layers.RandomFlip("horizontal")
train = train.map(lambda x, y: (flip(x, training=True), y), num_parallel_calls=tf.data.AUTOTUNE)
train = train.prefetch(tf.data.AUTOTUNE)
val = val.cache().prefetch(tf.data.AUTOTUNE)

base = keras.applications.MobileNetV2(input_shape=(32, 32, 3), include_top=False, weights="imagenet")
base.trainable = False

inputs = keras.Input((32, 32, 3))
x = keras.applications.mobilenet_v2.preprocess_input(inputs)
x = base(x, training=False)
x = keras.layers.GlobalAveragePooling2D()(x)
x = keras.layers.Dropout(0.2)(x)
outputs = keras.layers.Dense(len(class_names))(x)
model = keras.Model(inputs, outputs)
model.compile(
    optimizer=keras.optimizers.Adam(1e-4),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(train, epochs=1, validation_data=val)
