import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers


class DropPath(layers.Layer):
    """Drops the residual branch of a whole sample while training."""

    def __init__(self, rate, **kw):
        super().__init__(**kw)
        self.rate = rate

    def call(self, x, training=False):
        if not training or self.rate == 0.0:
            return x
        keep = 1.0 - self.rate
        shape = (tf.shape(x)[0],) + (1,) * (len(x.shape) - 1)
        return x / keep * tf.floor(keep + tf.random.uniform(shape))


def block(x, rate):
    filters = x.shape[-1]
    h = layers.GroupNormalization(4)(x)
    h = layers.Conv2D(filters, 3, padding="same", activation="relu")(h)
    h = layers.Conv2D(filters, 3, padding="same", kernel_initializer="zeros")(h)   # starts as the identity
    return layers.Add()([x, DropPath(rate)(h)])


def read(path, training):
    def parse(r):
        d = tf.io.parse_single_example(r, {"image": tf.io.FixedLenFeature([], tf.string),
                                           "label": tf.io.FixedLenFeature([], tf.int64)})
        return tf.ensure_shape(tf.io.decode_jpeg(d["image"], channels=3), (32, 32, 3)), d["label"]
    ds = tf.data.TFRecordDataset([path], compression_type="GZIP").map(parse)
    if training:
        ds = ds.shuffle(320)
    return ds.batch(32).prefetch(1)


inputs = keras.Input((32, 32, 3), dtype="uint8")
x = layers.Rescaling(1 / 127.5, -1)(inputs)
x = layers.Conv2D(16, 4, strides=4)(x)
for i in range(3):
    x = block(x, rate=0.1 * i / 2)
x = layers.GlobalMaxPooling2D()(x)
model = keras.Model(inputs, layers.Dense(4)(x))
model.compile(
    keras.optimizers.AdamW(5e-3, weight_decay=0.01),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(read("data/shapes_gzip/train.tfrecord.gz", True),
          validation_data=read("data/shapes_gzip/val.tfrecord.gz", False), epochs=5, verbose=2)
