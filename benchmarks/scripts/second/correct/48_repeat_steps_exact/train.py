import math
import tensorflow as tf

TRAIN_RECORDS, VAL_RECORDS, BATCH = 320, 80, 48
STEPS = math.ceil(TRAIN_RECORDS / BATCH)
VAL_STEPS = math.ceil(VAL_RECORDS / BATCH)

parse_spec = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
}

@tf.function
def parse(x):
    d = tf.io.parse_single_example(x, parse_spec)
    im = tf.image.decode_jpeg(d["image/encoded"], channels=3, dct_method="INTEGER_ACCURATE")
    im.set_shape((32, 32, 3))
    return tf.cast(im, tf.float32), d["image/class/label"]

# batch before repeat: each epoch is 6 full batches and one of 32
train = (tf.data.TFRecordDataset(tf.io.gfile.glob("data/shapes/train-*"))
         .shuffle(TRAIN_RECORDS).map(parse).batch(BATCH).repeat().prefetch(2))
val = (tf.data.TFRecordDataset(tf.io.gfile.glob("data/shapes/val-*")).map(parse).batch(BATCH).repeat())

model = tf.keras.Sequential([
    tf.keras.layers.Input((32, 32, 3)),
    tf.keras.layers.Rescaling(1. / 255),
    tf.keras.layers.Conv2D(16, 3, strides=2, activation="elu"),
    tf.keras.layers.Conv2D(32, 3, strides=2, activation="elu"),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(4, activation="softmax"),
])
model.compile(tf.keras.optimizers.Adam(2e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, steps_per_epoch=STEPS, validation_data=val, validation_steps=VAL_STEPS, epochs=5, verbose=2)
