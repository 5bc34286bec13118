import tensorflow as tf

import data
from model import small_cnn

train_ds = data.build("train", batch_size=25, training=True)
val_ds = data.build("val", batch_size=25, training=False)

model = small_cnn(data.SIZE, data.CLASSES)
model.compile(
    optimizer=tf.keras.optimizers.Adam(1e-3),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(train_ds, validation_data=val_ds, epochs=5)
