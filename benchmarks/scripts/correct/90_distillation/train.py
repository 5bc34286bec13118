import keras
import tensorflow as tf
from keras import layers, ops


def parse(record):
    f = tf.io.parse_single_example(record, {
        "image_raw": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    x = tf.cast(tf.io.decode_raw(f["image_raw"], tf.uint8), tf.float32) / 255.0
    return tf.reshape(x, (28, 28, 1)), f["label"]


train = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob("data/digits/train-*"))).map(parse).cache()
train = train.shuffle(500).batch(50)
test = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob("data/digits/test-*"))).map(parse).batch(50)


def network(width, name):
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(width, 3, strides=2, padding="same"),
            layers.LeakyReLU(negative_slope=0.2),
            layers.Conv2D(width * 2, 3, strides=2, padding="same"),
            layers.Flatten(),
            layers.Dense(10),
        ],
        name=name,
    )


class Distiller(keras.Model):
    def __init__(self, student, teacher, alpha=0.3, temperature=4.0):
        super().__init__()
        self.student, self.teacher = student, teacher
        self.teacher.trainable = False
        self.alpha, self.temperature = alpha, temperature

    def call(self, x, training=None):
        return self.student(x, training=training)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        teacher_logits = self.teacher(x, training=False)
        hard = ops.mean(keras.losses.sparse_categorical_crossentropy(y, y_pred, from_logits=True))
        soft = ops.mean(
            keras.losses.kl_divergence(
                ops.softmax(teacher_logits / self.temperature, axis=1),
                ops.softmax(y_pred / self.temperature, axis=1),
            )
        )
        return self.alpha * hard + (1 - self.alpha) * soft * self.temperature**2


teacher = network(24, "teacher")
teacher.compile(
    optimizer=keras.optimizers.Adam(2e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
teacher.fit(train, epochs=6, verbose=2)

distiller = Distiller(network(6, "student"), teacher)
distiller.compile(optimizer=keras.optimizers.Adam(3e-3), metrics=["accuracy"])
distiller.fit(train, epochs=6, validation_data=test, verbose=2)
