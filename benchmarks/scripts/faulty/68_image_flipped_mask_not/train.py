import tensorflow as tf
from augment import augment
from net import build_unet


def parse(example):
    d = tf.io.parse_single_example(example, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "mask": tf.io.FixedLenFeature([], tf.string),
    })
    image = tf.io.decode_png(d["image"], channels=3)
    mask = tf.io.decode_png(d["mask"], channels=1)
    image = tf.cast(tf.reshape(image, (48, 48, 3)), tf.float32) / 255.0
    return image, tf.reshape(mask, (48, 48, 1))


train = tf.data.TFRecordDataset("data/cells/train.tfrecord").map(parse).cache()
train = train.shuffle(120).map(augment, num_parallel_calls=tf.data.AUTOTUNE).batch(10).prefetch(1)
valid = tf.data.TFRecordDataset("data/cells/val.tfrecord").map(parse).batch(10)

model = build_unet((48, 48, 3), 3)
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(train, validation_data=valid, epochs=8)
