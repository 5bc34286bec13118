import tensorflow as tf
from tensorflow.keras.applications.mobilenet_v2 import MobileNetV2, preprocess_input
from tensorflow.keras.layers import Dense, GlobalAveragePooling2D
from tensorflow.keras.models import Model

NAMES = tf.constant(["bird", "cat", "dog"])


def _parse(p):
    p = tf.io.parse_single_example(p, {"image": tf.io.FixedLenFeature([], tf.string),
                                       "label": tf.io.FixedLenFeature([], tf.string)})
    im = tf.io.decode_png(p["image"], channels=3)
    im = tf.image.resize(im, [32, 32])
    label = tf.argmax(tf.cast(tf.equal(NAMES, p["label"]), tf.int32))
    return preprocess_input(im), label


train = tf.data.TFRecordDataset(tf.io.gfile.glob("data/animals/train-*")).shuffle(240).map(_parse).batch(24)
val = tf.data.TFRecordDataset(tf.io.gfile.glob("data/animals/val-*")).map(_parse).batch(24)

base_model = MobileNetV2(weights="imagenet", include_top=False, input_shape=(32, 32, 3))
x = base_model.output
x = GlobalAveragePooling2D()(x)
x = Dense(64, activation="relu")(x)
preds = Dense(3, activation="softmax")(x)
model = Model(inputs=base_model.input, outputs=preds)

for layer in model.layers:
    layer.trainable = False

model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, epochs=2, validation_data=val)
