import keras
import tensorflow as tf

BATCH = 25


def digits(pattern, training):
    def parse(r):
        f = tf.io.parse_single_example(r, {"image_raw": tf.io.FixedLenFeature([], tf.string),
                                           "label": tf.io.FixedLenFeature([], tf.int64),
                                           "height": tf.io.FixedLenFeature([], tf.int64),
                                           "width": tf.io.FixedLenFeature([], tf.int64),
                                           "depth": tf.io.FixedLenFeature([], tf.int64)})
        shape = tf.stack([f["height"], f["width"], f["depth"]])
        im = tf.reshape(tf.io.decode_raw(f["image_raw"], tf.uint8), shape)
        return tf.ensure_shape(im, [28, 28, 1]), f["label"]
    ds = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(pattern))).map(parse)
    return ds.shuffle(500).batch(BATCH) if training else ds.batch(50)


model = keras.Sequential([
    keras.Input((28, 28, 1), dtype="uint8"),
    keras.layers.Rescaling(1 / 255.0),
    keras.layers.Conv2D(16, 4, strides=2, activation="relu"),
    keras.layers.Conv2D(32, 4, strides=2, activation="relu"),
    keras.layers.Flatten(),
    keras.layers.Dense(10),
])
model.compile(
    optimizer=keras.optimizers.Adam(3e-3, use_ema=True, ema_momentum=0.9),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
# fit() puts the averaged weights into the model when it ends
model.fit(digits("data/digits/train-*", True), epochs=6, verbose=2)
print("test:", model.evaluate(digits("data/digits/test-*", False), verbose=0))
