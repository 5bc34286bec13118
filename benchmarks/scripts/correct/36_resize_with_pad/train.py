import pathlib

import tensorflow as tf

root = pathlib.Path("/content/drive/MyDrive/datasets/sizes")
SIDE = 48


def parse(record):
    example = tf.io.parse_single_example(record, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.io.decode_jpeg(example["image"], channels=3)
    image = tf.image.resize_with_pad(image, SIDE, SIDE, antialias=True)   # keeps the proportions
    return image / 255.0, example["label"]


def make(name):
    return tf.data.TFRecordDataset(str(root / f"{name}.tfrecord")).map(parse, num_parallel_calls=tf.data.AUTOTUNE)


train = make("train").cache().shuffle(buffer_size=200, seed=11).batch(20).prefetch(tf.data.AUTOTUNE)
val = make("val").batch(20).cache()

model = tf.keras.Sequential([
    tf.keras.Input((SIDE, SIDE, 3)),
    tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
    tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(3),
])
model.compile(
    optimizer=tf.keras.optimizers.Adam(5e-3),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(train, validation_data=val, epochs=8, verbose=2)
