"""Phase 1: train the head on a frozen backbone. Phase 2: train everything."""
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

IMG = 32


def parse(rec):
    e = tf.io.parse_single_example(rec, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    img = tf.image.resize(tf.io.decode_jpeg(e["image"], channels=3), [IMG, IMG])
    return img / 127.5 - 1.0, e["label"] - 1


files = sorted(tf.io.gfile.glob("data/flowers/train-*.tfrecord"))
train = tf.data.TFRecordDataset(files).map(parse).cache().shuffle(250).batch(25).prefetch(1)
val = tf.data.TFRecordDataset(tf.io.gfile.glob("data/flowers/val-*.tfrecord")).map(parse).batch(25).cache()

backbone = keras.applications.MobileNetV2(
    input_shape=(IMG, IMG, 3), alpha=0.35, include_top=False, pooling="avg", weights="imagenet")
head = layers.Dense(5)
inputs = keras.Input((IMG, IMG, 3))
model = keras.Model(inputs, head(backbone(inputs, training=False)))

loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
acc = keras.metrics.SparseCategoricalAccuracy()
optimizer = keras.optimizers.Adam(1e-3)


def run_epoch(variables):
    for x, y in train:
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x, training=True))
        grads = tape.gradient(loss, variables)
        optimizer.apply_gradients(zip(grads, variables))
    acc.reset_state()
    for x, y in val:
        acc.update_state(y, model(x, training=False))
    print("val acc", float(acc.result()))


backbone.trainable = False
run_epoch(model.trainable_variables)

backbone.trainable = True
optimizer.learning_rate.assign(1e-4)
run_epoch(model.trainable_variables)
