import tensorflow as tf
from tensorflow.keras import layers

from seg_data import SIZE, segmentation_ds

NUM_CLASSES = 3

inp = layers.Input((*SIZE, 3))
c1 = layers.Conv2D(12, 3, padding="same", activation="relu")(inp)
c2 = layers.Conv2D(24, 3, strides=2, padding="same", activation="relu")(c1)
c2 = layers.Conv2D(24, 3, padding="same", activation="relu")(c2)
up = layers.UpSampling2D()(c2)
out = layers.Conv2D(NUM_CLASSES, 3, padding="same")(layers.Concatenate()([c1, up]))

model = tf.keras.Model(inp, out)
model.compile(
    optimizer=tf.keras.optimizers.Adam(3e-3),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(segmentation_ds("train", 12), validation_data=segmentation_ds("val", 12), epochs=3, verbose=2)
