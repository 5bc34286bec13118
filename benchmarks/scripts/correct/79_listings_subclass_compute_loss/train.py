import keras
import tensorflow as tf
from keras import layers, ops


class LateFusion(keras.Model):
    """Two branches, each with a head of its own; the prediction adds their logits."""

    def __init__(self, classes, aux_weight=0.3):
        super().__init__()
        self.aux_weight = aux_weight
        self.vision = keras.Sequential([
            layers.Conv2D(16, 3, strides=2, activation="relu"),
            layers.Conv2D(24, 3, strides=2, activation="relu"),
            layers.GlobalAveragePooling2D(),
        ])
        self.vision_head = layers.Dense(classes)
        self.tabular = keras.Sequential([layers.Dense(16, activation="relu"), layers.Dropout(0.2)])
        self.tabular_head = layers.Dense(classes)

    def call(self, inputs, training=None):
        image, meta = inputs
        vision = self.vision_head(self.vision(image, training=training))
        tabular = self.tabular_head(self.tabular(meta, training=training))
        return {"fused": vision + tabular, "vision": vision, "tabular": tabular}

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        def cross_entropy(logits):
            return ops.mean(keras.losses.sparse_categorical_crossentropy(y, logits, from_logits=True))

        aux = cross_entropy(y_pred["vision"]) + cross_entropy(y_pred["tabular"])
        return cross_entropy(y_pred["fused"]) + self.aux_weight * aux

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        return super().compute_metrics(x, y, y_pred["fused"], sample_weight)


def parse(record):
    row = tf.io.parse_single_example(record, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "meta": tf.io.FixedLenFeature([4], tf.float32),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.cast(tf.io.decode_jpeg(row["image"], channels=3), tf.float32) / 255.0
    # meta is centred and of order one already
    return (tf.ensure_shape(image, (32, 32, 3)), row["meta"]), row["label"]


train = tf.data.TFRecordDataset("data/listings/train.tfrecord").map(parse).cache().shuffle(300).batch(30)
val = tf.data.TFRecordDataset("data/listings/val.tfrecord").map(parse).batch(40)

model = LateFusion(classes=3)
model.compile(optimizer=keras.optimizers.Adam(5e-3), metrics=[keras.metrics.SparseCategoricalAccuracy(name="acc")])
model.fit(train, validation_data=val, epochs=5, verbose=2)
