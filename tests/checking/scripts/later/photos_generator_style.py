"""Written after the rules: options, take for a look, a cache on disk."""

import tensorflow as tf

options = tf.data.Options()
options.deterministic = False


def example_to_tensors(serialized):
    features = tf.io.parse_single_example(
        serialized,
        features={
            "image": tf.io.FixedLenFeature(shape=[], dtype=tf.string),
            "label": tf.io.FixedLenFeature(shape=[], dtype=tf.int64),
        },
    )
    image = tf.io.decode_image(features["image"], channels=3, expand_animations=False)
    image = tf.image.resize(tf.ensure_shape(image, [None, None, 3]), [32, 32])
    image = (image / 127.5) - 1.0
    return {"pixels": image}, features["label"]


files = tf.data.Dataset.list_files("photos/train-*.tfrecord", seed=3)
train = (
    files.interleave(
        lambda path: tf.data.TFRecordDataset(path), cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE
    )
    .with_options(options)
    .shuffle(512)
    .map(example_to_tensors, tf.data.AUTOTUNE)
    .batch(16, num_parallel_calls=tf.data.AUTOTUNE)
    .prefetch(2)
)
val = (
    tf.data.TFRecordDataset("photos/val-00000-of-00001.tfrecord")
    .map(example_to_tensors, tf.data.AUTOTUNE)
    .batch(16)
    .prefetch(2)
)

for batch, labels in train.take(1):
    print(batch["pixels"].shape, labels.numpy())

pixels = tf.keras.Input((32, 32, 3), name="pixels")
x = tf.keras.layers.Conv2D(8, 3, padding="same")(pixels)
x = tf.keras.layers.Activation("relu")(x)
x = tf.keras.layers.Flatten()(x)
x = tf.keras.layers.Dense(4)(x)
outputs = tf.keras.layers.Softmax()(x)
model = tf.keras.Model({"pixels": pixels}, outputs)
model.compile("adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=3, callbacks=[tf.keras.callbacks.EarlyStopping()])
