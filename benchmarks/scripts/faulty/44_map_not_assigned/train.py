import tensorflow as tf
from tensorflow import keras

def parse(record):
    example = tf.io.parse_single_example(record, {
        "x": tf.io.FixedLenFeature([8], tf.float32),
        "price": tf.io.FixedLenFeature([], tf.float32),
    })
    return example["x"], example["price"]

def standardize(x, price):
    return x, (price - 380000.0) / 130000.0

train_ds = tf.data.TFRecordDataset("data/houses/train.tfrecord").map(parse)
val_ds = tf.data.TFRecordDataset("data/houses/val.tfrecord").map(parse)

# scale target
train_ds.map(standardize)
val_ds.map(standardize)

train_ds = train_ds.shuffle(500).batch(32).prefetch(tf.data.AUTOTUNE)
val_ds = val_ds.batch(32)

model = keras.Sequential([
    keras.Input((8,)),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.Dense(1),
])
model.compile(loss="mse", optimizer=keras.optimizers.RMSprop(0.001), metrics=["mae", "mse"])
model.fit(train_ds, epochs=10, validation_data=val_ds, verbose=2)
