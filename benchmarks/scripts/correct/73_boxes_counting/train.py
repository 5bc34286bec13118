import tensorflow as tf


def parse(record):
    f = tf.io.parse_single_example(record, {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/object/class/label": tf.io.RaggedFeature(tf.int64),
    })
    image = tf.image.resize(tf.io.decode_jpeg(f["image/encoded"], channels=3), (64, 64)) / 255.0
    count = tf.cast(tf.size(f["image/object/class/label"]), tf.float32)
    return image, count


train = tf.data.TFRecordDataset("data/boxes/train.tfrecord").map(parse).cache().shuffle(160).batch(16)
val = tf.data.TFRecordDataset("data/boxes/val.tfrecord").map(parse).batch(40)

model = tf.keras.Sequential([
    tf.keras.Input((64, 64, 3)),
    tf.keras.layers.Conv2D(16, 5, strides=2, activation="relu"),
    tf.keras.layers.Conv2D(24, 3, strides=2, activation="relu"),
    tf.keras.layers.Conv2D(24, 3, activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(1, activation="exponential"),    # a rate is positive
])
model.compile(optimizer=tf.keras.optimizers.Adam(3e-3), loss="poisson", metrics=["mae"])
model.fit(train, validation_data=val, epochs=8, verbose=2)
