import tensorflow as tf
from tensorflow.keras import layers


def load(pattern, shuffle):
    def parse(s):
        p = tf.io.parse_single_example(s, {"image_raw": tf.io.FixedLenFeature([], tf.string)})
        img = tf.io.decode_raw(p["image_raw"], tf.uint8)
        img = tf.cast(tf.reshape(img, [28, 28, 1]), tf.float32) / 255.0
        return img

    ds = tf.data.TFRecordDataset(tf.io.gfile.glob(pattern)).map(parse).cache()
    if shuffle:
        ds = ds.shuffle(500)
    return ds.map(lambda im: (im, im)).batch(50).prefetch(1)


encoder = tf.keras.Sequential([
    layers.Input((28, 28, 1)),
    layers.Conv2D(8, 3, strides=2, padding="same", activation="relu"),
    layers.Conv2D(16, 3, strides=2, padding="same", activation="relu"),
    layers.Flatten(),
    layers.Dense(32),
], name="encoder")
decoder = tf.keras.Sequential([
    layers.Input((32,)),
    layers.Dense(7 * 7 * 16, activation="relu"),
    layers.Reshape((7, 7, 16)),
    layers.Conv2DTranspose(16, 3, strides=2, padding="same", activation="relu"),
    layers.Conv2DTranspose(8, 3, strides=2, padding="same", activation="relu"),
    layers.Conv2D(1, 3, padding="same", activation="sigmoid"),
], name="decoder")

autoencoder = tf.keras.Sequential([encoder, decoder])
autoencoder.compile(optimizer=tf.keras.optimizers.Adam(5e-3), loss="binary_crossentropy", metrics=["mse"])
autoencoder.fit(load("data/digits/train-*", True), epochs=5, verbose=2)
print("held out:", autoencoder.evaluate(load("data/digits/test-*", False), verbose=0, return_dict=True))
