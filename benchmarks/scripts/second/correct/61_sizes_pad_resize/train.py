import tensorflow as tf

TARGET = 48


def parse_and_fit(record):
    f = tf.io.parse_single_example(record, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.io.decode_jpeg(f["image"], channels=3)
    # keeps the aspect ratio; the border is black
    image = tf.image.resize_with_pad(image, TARGET, TARGET)
    return image / 255.0, f["label"]


train = tf.data.TFRecordDataset("data/sizes/train.tfrecord").map(parse_and_fit, tf.data.AUTOTUNE)
train = train.cache().shuffle(200).batch(20).prefetch(tf.data.AUTOTUNE)
val = tf.data.TFRecordDataset("data/sizes/val.tfrecord").map(parse_and_fit, tf.data.AUTOTUNE).batch(20)

model = tf.keras.Sequential([
    tf.keras.Input((TARGET, TARGET, 3)),
    tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
    tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
    tf.keras.layers.GlobalMaxPooling2D(),
    tf.keras.layers.Dense(3),
])
model.compile(
    tf.keras.optimizers.Adam(5e-3),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(train, validation_data=val, epochs=5, verbose=2)
