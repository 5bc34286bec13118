import tensorflow as tf
from tensorflow import keras

TOTAL = 400
VAL_SIZE = 80
BATCH_SIZE = 32


def _parse(proto):
    ex = tf.io.parse_single_example(
        proto,
        {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)},
    )
    image = tf.io.decode_jpeg(ex["image"], channels=3)
    image = tf.image.convert_image_dtype(image, tf.float32)
    return tf.ensure_shape(image, [32, 32, 3]), ex["label"]


full = tf.data.TFRecordDataset("data/shapes_pool/all.tfrecord").map(_parse, num_parallel_calls=tf.data.AUTOTUNE)
full = full.shuffle(TOTAL, seed=42)

val_ds = full.take(VAL_SIZE).batch(BATCH_SIZE).prefetch(tf.data.AUTOTUNE)
train_ds = full.skip(VAL_SIZE).batch(BATCH_SIZE).prefetch(tf.data.AUTOTUNE)

model = keras.Sequential([
    keras.layers.Input((32, 32, 3)),
    keras.layers.Conv2D(16, 3, activation="relu"),
    keras.layers.MaxPooling2D(),
    keras.layers.Conv2D(32, 3, activation="relu"),
    keras.layers.MaxPooling2D(),
    keras.layers.Flatten(),
    keras.layers.Dense(4, activation="softmax"),
])
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
early = keras.callbacks.EarlyStopping(monitor="val_accuracy", mode="max", patience=3, restore_best_weights=True)
model.fit(train_ds, validation_data=val_ds, epochs=4, callbacks=[early])
print("val:", model.evaluate(val_ds, verbose=0))
