import tensorflow as tf
import keras
from keras import layers

PARSE = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "bbox": tf.io.FixedLenFeature([4], tf.float32),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def parse(rec):
    d = tf.io.parse_single_example(rec, PARSE)
    image = tf.io.decode_jpeg(d["image"], channels=3)
    image = tf.image.convert_image_dtype(tf.ensure_shape(image, [64, 64, 3]), tf.float32)
    return image, {"box": d["bbox"], "kind": d["label"]}


def augment(image, targets):
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, 0.1)
    image = tf.clip_by_value(image, 0.0, 1.0)
    return image, targets


def pipeline(path, training):
    ds = tf.data.TFRecordDataset(path).map(parse, num_parallel_calls=tf.data.AUTOTUNE).cache()
    if training:
        ds = ds.shuffle(200).map(augment, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(20).prefetch(tf.data.AUTOTUNE)


def build():
    inp = keras.Input((64, 64, 3))
    x = inp
    for f in (16, 32, 32):
        x = layers.Conv2D(f, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.Flatten()(x)
    x = layers.Dense(64, activation="relu")(x)
    box = layers.Dense(4, activation="sigmoid", name="box")(x)
    kind = layers.Dense(3, activation="softmax", name="kind")(x)
    return keras.Model(inp, {"box": box, "kind": kind})


model = build()
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss={"box": "mse", "kind": "sparse_categorical_crossentropy"},
    loss_weights={"box": 5.0, "kind": 1.0},
    metrics={"box": ["mae"], "kind": ["accuracy"]},
)
model.fit(
    pipeline("data/single_box/train.tfrecord", True),
    validation_data=pipeline("data/single_box/val.tfrecord", False),
    epochs=3,
    verbose=2,
)
