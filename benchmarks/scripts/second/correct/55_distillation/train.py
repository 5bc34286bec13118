import keras
import tensorflow as tf
from keras import layers, ops


def data(split, training=False):
    def parse(r):
        f = tf.io.parse_single_example(r, {"image/encoded": tf.io.FixedLenFeature([], tf.string),
                                           "image/class/label": tf.io.FixedLenFeature([], tf.int64)})
        im = tf.io.decode_jpeg(f["image/encoded"], channels=3)
        return tf.ensure_shape(tf.cast(im, tf.float32) / 255.0, (32, 32, 3)), f["image/class/label"]
    ds = tf.data.TFRecordDataset(tf.io.gfile.glob(f"data/shapes/{split}-*")).map(parse).cache()
    if training:
        ds = ds.shuffle(320)
    return ds.batch(32).prefetch(1)


def net(width, name):
    return keras.Sequential([
        keras.Input((32, 32, 3)),
        layers.Conv2D(width, 3, strides=2, activation="relu"),
        layers.Conv2D(2 * width, 3, strides=2, activation="relu"),
        layers.Flatten(),
        layers.Dense(4),
    ], name=name)


class Distiller(keras.Model):
    def __init__(self, student, teacher, alpha=0.3, temperature=4.0):
        super().__init__()
        self.student, self.teacher = student, teacher
        self.teacher.trainable = False
        self.alpha, self.temperature = alpha, temperature

    def call(self, x, training=False):
        return self.student(x, training=training)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, **kwargs):
        hard = super().compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight)
        soft_target = ops.softmax(self.teacher(x, training=False) / self.temperature)
        soft = keras.losses.kl_divergence(soft_target, ops.softmax(y_pred / self.temperature))
        return self.alpha * hard + (1 - self.alpha) * ops.mean(soft) * self.temperature**2


cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
train, val = data("train", True), data("val")

teacher = net(24, "teacher")
teacher.compile(keras.optimizers.Adam(3e-3), loss=cross_entropy, metrics=["accuracy"])
teacher.fit(train, validation_data=val, epochs=4, verbose=2)

distiller = Distiller(net(6, "student"), teacher)
distiller.compile(keras.optimizers.Adam(4e-3), loss=cross_entropy, metrics=["accuracy"])
distiller.fit(train, validation_data=val, epochs=6, verbose=2)
