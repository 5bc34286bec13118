"""
Title: House prices with preprocessing layers
Description: Regression on eight numeric features.
"""
import keras
import tensorflow as tf
from keras import layers

"""
## Load
"""


def parse(record):
    features = {"x": tf.io.FixedLenFeature([8], tf.float32), "price": tf.io.FixedLenFeature([1], tf.float32)}
    row = tf.io.parse_single_example(record, features)
    return row["x"], row["price"]


raw_train = tf.data.TFRecordDataset("data/houses/train.tfrecord").map(parse)
raw_val = tf.data.TFRecordDataset("data/houses/val.tfrecord").map(parse)

"""
## Scale inputs and target with the statistics of the training data
"""
input_norm = layers.Normalization()
input_norm.adapt(raw_train.map(lambda x, y: x).batch(100))
target_norm = layers.Normalization()
target_norm.adapt(raw_train.map(lambda x, y: y).batch(100))

train_ds = raw_train.shuffle(500).batch(32).map(lambda x, y: (x, target_norm(y)))
val_ds = raw_val.batch(32).map(lambda x, y: (x, target_norm(y)))

"""
## Model
"""
inputs = keras.Input((8,))
x = input_norm(inputs)
x = layers.Dense(32, activation="relu")(x)
x = layers.Dense(16, activation="relu")(x)
outputs = layers.Dense(1, activation="relu")(x)
model = keras.Model(inputs, outputs)
model.compile(optimizer=keras.optimizers.Adam(5e-3), loss="mse", metrics=["mae"])
model.fit(train_ds, validation_data=val_ds, epochs=8, verbose=2)

"""
## Back to euros
"""
for x, y in raw_val.batch(5).take(1):
    euros = model(x) * tf.sqrt(target_norm.variance) + target_norm.mean
    print(tf.concat([y, euros], axis=1).numpy().round())
