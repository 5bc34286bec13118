import tensorflow as tf
from tensorflow.keras import Model, layers

BATCH_SIZE = 30


def parse_listing(raw):
    spec = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "meta": tf.io.FixedLenFeature([4], tf.float32),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }
    row = tf.io.parse_single_example(raw, spec)
    photo = tf.io.decode_jpeg(row["image"], channels=3)
    photo = tf.image.convert_image_dtype(photo, tf.float32)
    photo.set_shape([32, 32, 3])
    return {"photo": photo, "meta": row["meta"]}, row["label"]


def get_batched_dataset(filename, is_training):
    dataset = tf.data.TFRecordDataset(filename)
    dataset = dataset.map(parse_listing, num_parallel_calls=tf.data.AUTOTUNE)
    if is_training:
        dataset = dataset.shuffle(300)
    dataset = dataset.repeat()
    dataset = dataset.batch(BATCH_SIZE)
    return dataset.prefetch(tf.data.AUTOTUNE)


photo = layers.Input((32, 32, 3), name="photo")
meta = layers.Input((4,), name="meta")
x = layers.Conv2D(16, 3, activation="relu")(photo)
x = layers.MaxPooling2D()(x)
x = layers.Conv2D(16, 3, activation="relu")(x)
x = layers.GlobalAveragePooling2D()(x)
x = layers.Concatenate()([x, meta])
x = layers.Dense(32, activation="relu")(x)
out = layers.Dense(3, activation="softmax")(x)
model = Model([photo, meta], out)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])

model.fit(
    get_batched_dataset("data/listings/train.tfrecord", True),
    steps_per_epoch=10,
    epochs=3,
    validation_data=get_batched_dataset("data/listings/val.tfrecord", False),
)
