import tensorflow as tf
from tensorflow.keras import layers
from tensorflow.keras.applications import mobilenet_v2

CLASS_NAMES = ["bird", "cat", "dog"]
lookup = layers.StringLookup(vocabulary=CLASS_NAMES, num_oov_indices=0)


def load_example(record):
    ex = tf.io.parse_single_example(
        record,
        {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.string)},
    )
    image = tf.image.decode_png(ex["image"], channels=3)
    image = tf.ensure_shape(image, [48, 48, 3])
    return tf.cast(image, tf.float32), lookup(ex["label"])


def split(name, training):
    ds = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(f"data/animals/{name}-*")))
    ds = ds.map(load_example, tf.data.AUTOTUNE).cache()
    if training:
        ds = ds.shuffle(240)
    return ds.batch(24).prefetch(tf.data.AUTOTUNE)


train, val = split("train", True), split("val", False)

base = mobilenet_v2.MobileNetV2(input_shape=(48, 48, 3), alpha=0.35, include_top=False, pooling="avg", weights="imagenet")
base.trainable = False

inputs = tf.keras.Input((48, 48, 3))
x = layers.RandomFlip("horizontal")(inputs)
x = mobilenet_v2.preprocess_input(x)      # 0..255 in, -1..1 out
x = base(x, training=False)
x = layers.Dropout(0.2)(x)
outputs = layers.Dense(len(CLASS_NAMES), activation="softmax")(x)
model = tf.keras.Model(inputs, outputs)

model.compile(tf.keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(train, validation_data=val, epochs=2, verbose=2)

# Fine-tune the last blocks; batch norm keeps running in inference mode.
base.trainable = True
for layer in base.layers[:100]:
    layer.trainable = False
model.compile(tf.keras.optimizers.Adam(1e-5), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, initial_epoch=history.epoch[-1] + 1, epochs=4, verbose=2)
