"""Splits one file with take and skip, over an order that stays the same in every epoch."""

import tensorflow as tf

COUNT = 2000
VAL_COUNT = 400
SCHEMA = {"x": tf.io.FixedLenFeature([64], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)}


def parse(records):
    sample = tf.io.parse_example(records, SCHEMA)
    return sample["x"], sample["label"]


everything = tf.data.TFRecordDataset("sensors/train-00000-of-00001.tfrecord")
everything = everything.shuffle(COUNT, seed=3, reshuffle_each_iteration=False)
val_records = everything.take(VAL_COUNT)
train_records = everything.skip(VAL_COUNT)

train = train_records.cache().shuffle(COUNT - VAL_COUNT).batch(32)
train = train.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
val = val_records.batch(32)
val = val.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential()
model.add(tf.keras.Input((64,)))
model.add(tf.keras.layers.Dense(16, activation="relu"))
model.add(tf.keras.layers.Dense(5, activation="softmax"))
model.compile(loss="sparse_categorical_crossentropy", optimizer="rmsprop", metrics=["accuracy"])
model.fit(train, epochs=2, validation_data=val)
