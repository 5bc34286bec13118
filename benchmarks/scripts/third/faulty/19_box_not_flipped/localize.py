# Object localization from scratch, step by step
import tensorflow as tf
from tensorflow.keras import layers

# Step 1: reading records
description = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "bbox": tf.io.FixedLenFeature([4], tf.float32),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def parse(serialized):
    sample = tf.io.parse_single_example(serialized, description)
    image = tf.image.decode_jpeg(sample["image"], channels=3)
    image = tf.image.convert_image_dtype(tf.reshape(image, [64, 64, 3]), tf.float32)
    return image, {"box": sample["bbox"], "kind": sample["label"]}


# Step 2: more data by augmentation
def augment(image, target):
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_contrast(image, 0.8, 1.2)
    return image, target


train = tf.data.TFRecordDataset("data/single_box/train.tfrecord").map(parse).shuffle(200)
train = train.map(augment).batch(20)
val = tf.data.TFRecordDataset("data/single_box/val.tfrecord").map(parse).batch(25)

# Step 3: one body, two heads
inputs = layers.Input((64, 64, 3))
x = layers.Conv2D(16, 3, strides=2, activation="relu")(inputs)
x = layers.Conv2D(32, 3, strides=2, activation="relu")(x)
x = layers.Conv2D(32, 3, strides=2, activation="relu")(x)
x = layers.Flatten()(x)
x = layers.Dense(64, activation="relu")(x)
box = layers.Dense(4, activation="sigmoid", name="box")(x)
kind = layers.Dense(3, activation="softmax", name="kind")(x)
model = tf.keras.Model(inputs, {"box": box, "kind": kind})

# Step 4: training
model.compile(
    optimizer="adam",
    loss={"box": "mse", "kind": "sparse_categorical_crossentropy"},
    loss_weights={"box": 5.0, "kind": 1.0},
    metrics={"box": "mae", "kind": "accuracy"},
)
model.fit(train, validation_data=val, epochs=8, verbose=2)
print(model.evaluate(val, verbose=0, return_dict=True))
