import tensorflow as tf

NUM_CLASSES, PER_CLASS, BATCH = 4, 80, 32


def decode(record):
    f = tf.io.parse_single_example(record, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.image.convert_image_dtype(tf.io.decode_jpeg(f["image"], channels=3), tf.float32)
    return tf.ensure_shape(image, (32, 32, 3)), f["label"]


# train.tfrecord holds class 0 first, then 1, 2, 3
decoded = tf.data.TFRecordDataset("data/shapes_sorted/train.tfrecord").map(decode).cache()
streams = [
    decoded.filter(lambda _, label, c=c: tf.equal(label, c)).shuffle(PER_CLASS).repeat() for c in range(NUM_CLASSES)
]
train = tf.data.Dataset.sample_from_datasets(streams, weights=[1 / NUM_CLASSES] * NUM_CLASSES, seed=0)
train = train.batch(BATCH).prefetch(2)
val = tf.data.TFRecordDataset("data/shapes_sorted/val.tfrecord").map(decode).batch(BATCH)   # order is irrelevant here

model = tf.keras.Sequential([
    tf.keras.Input((32, 32, 3)),
    tf.keras.layers.Conv2D(16, 3, activation="relu"),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Conv2D(32, 3, activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(NUM_CLASSES),
])
model.compile(tf.keras.optimizers.Adam(5e-3), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=["accuracy"])
model.fit(train, steps_per_epoch=NUM_CLASSES * PER_CLASS // BATCH, epochs=6, validation_data=val, verbose=2)
