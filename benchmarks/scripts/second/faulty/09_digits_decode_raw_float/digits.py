import tensorflow as tf

SPEC = {
    "image_raw": tf.io.FixedLenFeature((), tf.string),
    "label": tf.io.FixedLenFeature((), tf.int64),
}


def parse(s):
    d = tf.io.parse_single_example(s, SPEC)
    pixels = tf.io.decode_raw(d["image_raw"], tf.float32)
    pixels = tf.reshape(pixels, (28, 28, 1))
    return tf.cast(pixels, tf.float32) / 255.0, d["label"]


def dataset(pattern, shuffle_buffer=0):
    ds = tf.data.TFRecordDataset(tf.io.gfile.glob(pattern)).map(parse)
    if shuffle_buffer:
        ds = ds.shuffle(shuffle_buffer)
    return ds.batch(50).prefetch(1)


train = dataset("data/digits/train-*.tfrecord", shuffle_buffer=500)
test = dataset("data/digits/test-*.tfrecord")

inputs = tf.keras.Input((28, 28, 1))
h = tf.keras.layers.Conv2D(16, 5, strides=2, activation="relu")(inputs)
h = tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu")(h)
h = tf.keras.layers.Flatten()(h)
outputs = tf.keras.layers.Dense(10, activation="softmax")(h)
net = tf.keras.Model(inputs, outputs)

net.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
net.fit(train, epochs=3)
print(net.evaluate(test, return_dict=True))
