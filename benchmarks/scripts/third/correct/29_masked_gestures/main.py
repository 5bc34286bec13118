import tensorflow as tf

from sequences import PAD, bucketed

model = tf.keras.Sequential(
    [
        tf.keras.Input((None, 6)),
        tf.keras.layers.Masking(mask_value=PAD),
        tf.keras.layers.GRU(24),
        tf.keras.layers.Dense(5, activation="softmax"),
    ]
)
model.compile(tf.keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(
    bucketed("data/gestures/train.tfrecord", True),
    validation_data=bucketed("data/gestures/val.tfrecord", False),
    epochs=6,
    verbose=2,
)
