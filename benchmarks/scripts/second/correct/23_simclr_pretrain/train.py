"""SimCLR in small: InfoNCE between two views, then a linear probe on frozen features."""
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

TEMPERATURE = 0.2


def files(split):
    return sorted(tf.io.gfile.glob(f"data/shapes/{split}-*.tfrecord"))


def decode(r):
    e = tf.io.parse_single_example(r, {"image/encoded": tf.io.FixedLenFeature([], tf.string),
                                       "image/class/label": tf.io.FixedLenFeature([], tf.int64)})
    im = tf.image.convert_image_dtype(tf.io.decode_jpeg(e["image/encoded"], 3), tf.float32)
    return tf.ensure_shape(im, (32, 32, 3)), e["image/class/label"]


def view(im):
    im = tf.image.random_crop(im, (26, 26, 3))
    im = tf.image.resize(im, (32, 32))
    im = tf.image.random_flip_left_right(im)
    im = tf.image.random_brightness(im, 0.15)
    return tf.clip_by_value(im, 0.0, 1.0)


# labels are not used here
pairs = (tf.data.TFRecordDataset(files("train")).map(decode).cache().shuffle(320)
         .map(lambda im, _: (view(im), view(im)), num_parallel_calls=tf.data.AUTOTUNE)
         .batch(64, drop_remainder=True).prefetch(2))

encoder = keras.Sequential([
    keras.Input((32, 32, 3)),
    layers.Conv2D(16, 3, strides=2, activation="relu"),
    layers.Conv2D(32, 3, strides=2, activation="relu"),
    layers.Flatten(), layers.Dense(64, activation="relu")])
projector = keras.Sequential([keras.Input((64,)), layers.Dense(32, activation="relu"), layers.Dense(16)])
opt = keras.optimizers.Adam(2e-3)


def info_nce(za, zb):
    za, zb = tf.math.l2_normalize(za, 1), tf.math.l2_normalize(zb, 1)
    logits = tf.matmul(za, zb, transpose_b=True) / TEMPERATURE
    target = tf.range(tf.shape(za)[0])
    ce = tf.nn.sparse_softmax_cross_entropy_with_logits
    return tf.reduce_mean(ce(target, logits) + ce(target, tf.transpose(logits))) / 2


@tf.function
def step(a, b):
    variables = encoder.trainable_variables + projector.trainable_variables
    with tf.GradientTape() as tape:
        loss = info_nce(projector(encoder(a, training=True), training=True),
                       projector(encoder(b, training=True), training=True))
    opt.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss


for epoch in range(6):
    mean = keras.metrics.Mean()
    for a, b in pairs:
        mean.update_state(step(a, b))
    print(f"pretrain {epoch + 1}: {float(mean.result()):.3f}")

encoder.trainable = False
probe = keras.Sequential([encoder, layers.Dense(4)])
probe.compile(keras.optimizers.Adam(2e-2),
              keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
labelled = tf.data.TFRecordDataset(files("train")).map(decode).cache().shuffle(320).batch(32)
probe.fit(labelled, validation_data=tf.data.TFRecordDataset(files("val")).map(decode).batch(40), epochs=4, verbose=2)
