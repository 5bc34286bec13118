import tensorflow as tf
from tensorflow import keras


def focal_loss(gamma=2.0, alpha=0.75):
    """Binary focal loss on logits. alpha weighs the rare class 1."""

    def loss(y_true, y_pred):
        y_true = tf.cast(y_true, y_pred.dtype)
        bce = tf.nn.sigmoid_cross_entropy_with_logits(labels=y_true, logits=y_pred)
        p = tf.sigmoid(y_pred)
        p_t = y_true * p + (1 - y_true) * (1 - p)
        alpha_t = y_true * alpha + (1 - y_true) * (1 - alpha)
        return tf.reduce_mean(alpha_t * tf.pow(1 - p_t, gamma) * bce, axis=-1)

    return loss


def parse(x):
    d = tf.io.parse_single_example(x, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "target": tf.io.FixedLenFeature([1], tf.int64),
    })
    image = tf.io.decode_png(d["image"], channels=3)
    image = tf.cast(tf.reshape(image, (32, 32, 3)), tf.float32) / 255.0
    return image, d["target"]


train = tf.data.TFRecordDataset("data/cats_dogs/train.tfrecord").map(parse).cache().shuffle(300).batch(32)
val = tf.data.TFRecordDataset("data/cats_dogs/val.tfrecord").map(parse).batch(80)

model = keras.Sequential([
    keras.layers.Input((32, 32, 3)),
    keras.layers.Conv2D(16, 3, activation="relu"),
    keras.layers.MaxPooling2D(2),
    keras.layers.Conv2D(16, 3, activation="relu"),
    keras.layers.Flatten(),
    keras.layers.Dense(1),
])
model.compile(
    optimizer="adam",
    loss=focal_loss(),
    metrics=[keras.metrics.AUC(curve="PR", from_logits=True, name="pr_auc")],
)
model.fit(train, validation_data=val, epochs=8, verbose=2)
