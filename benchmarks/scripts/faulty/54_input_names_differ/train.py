import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

AUTOTUNE = tf.data.AUTOTUNE


def parse_example(serialized):
    example = tf.io.parse_single_example(serialized, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "meta": tf.io.FixedLenFeature([4], tf.float32),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.io.decode_jpeg(example["image"], channels=3)
    image = tf.ensure_shape(tf.image.convert_image_dtype(image, tf.float32), [32, 32, 3])
    inputs = {"image": image, "tabular": example["meta"]}
    return inputs, example["label"]


def load_dataset(path, batch_size=20, shuffle=False):
    ds = tf.data.TFRecordDataset(path, num_parallel_reads=AUTOTUNE)
    ds = ds.map(parse_example, num_parallel_calls=AUTOTUNE)
    if shuffle:
        ds = ds.shuffle(300)
    return ds.batch(batch_size).prefetch(AUTOTUNE)


def create_model():
    photo_in = keras.Input((32, 32, 3), name="photo")
    meta_in = keras.Input((4,), name="meta")

    h = layers.Conv2D(16, 3, activation="relu")(photo_in)
    h = layers.MaxPooling2D()(h)
    h = layers.Flatten()(h)
    h = layers.Dense(16, activation="relu")(h)

    t = layers.Dense(8, activation="relu")(meta_in)

    merged = layers.concatenate([h, t])
    out = layers.Dense(3, activation="softmax", name="category")(merged)
    return keras.Model(inputs={"photo": photo_in, "meta": meta_in}, outputs=out)


model = create_model()
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(
    load_dataset("data/listings/train.tfrecord", shuffle=True),
    validation_data=load_dataset("data/listings/val.tfrecord"),
    epochs=5,
)
