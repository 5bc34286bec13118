import tensorflow as tf

# Only 20 pictures: an "epoch" here is 40 small batches of augmented copies.
BATCH, STEPS, EPOCHS = 5, 40, 4


def parse(r):
    f = tf.io.parse_single_example(r, {"image": tf.io.FixedLenFeature([], tf.string),
                                       "label": tf.io.FixedLenFeature([1], tf.int64)})
    image = tf.io.decode_jpeg(f["image"], channels=3)
    return tf.cast(tf.ensure_shape(image, [32, 32, 3]), tf.float32) / 255.0, tf.cast(f["label"], tf.float32)


def augment(image, label):
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_flip_up_down(image)
    image = tf.image.random_crop(tf.image.pad_to_bounding_box(image, 3, 3, 38, 38), [32, 32, 3])
    image = tf.image.random_contrast(image, 0.8, 1.2)
    return tf.clip_by_value(image, 0.0, 1.0), label


train = tf.data.TFRecordDataset("data/tiny/train.tfrecord").map(parse).cache()
train = train.shuffle(20).repeat().map(augment).batch(BATCH).prefetch(4)
val = tf.data.TFRecordDataset("data/tiny/val.tfrecord").map(parse).batch(8)

model = tf.keras.Sequential([
    tf.keras.Input((32, 32, 3)),
    tf.keras.layers.Conv2D(8, 3, activation="relu", kernel_regularizer=tf.keras.regularizers.L2(1e-4)),
    tf.keras.layers.MaxPooling2D(4),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dropout(0.4),
    tf.keras.layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
model.fit(train, steps_per_epoch=STEPS, epochs=EPOCHS, validation_data=val, verbose=2)
