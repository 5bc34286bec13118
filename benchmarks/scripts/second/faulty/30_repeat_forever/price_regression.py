import tensorflow as tf
import keras

spec = {
    "x": tf.io.FixedLenFeature([8], tf.float32),
    "price": tf.io.FixedLenFeature([1], tf.float32),
}


def parse(r):
    row = tf.io.parse_single_example(r, spec)
    # prices in units of 100k
    return row["x"], row["price"] / 1e5


train = tf.data.TFRecordDataset("data/houses/train.tfrecord").map(parse)
train = train.shuffle(500).repeat().batch(50).prefetch(tf.data.AUTOTUNE)
valid = tf.data.TFRecordDataset("data/houses/val.tfrecord").map(parse).batch(50)

x_in = keras.Input((8,))
h = keras.layers.Dense(32, activation="relu")(x_in)
h = keras.layers.Dense(32, activation="relu")(h)
price = keras.layers.Dense(1)(h)

model = keras.Model(x_in, price)
model.compile(optimizer="adam", loss="mse", metrics=["mae"])
model.fit(train, validation_data=valid, epochs=3, verbose=2)
model.save("houses.keras")
