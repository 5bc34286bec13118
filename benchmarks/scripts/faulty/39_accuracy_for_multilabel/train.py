import tensorflow as tf

NUM_LABELS = 6
features = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "labels": tf.io.VarLenFeature(tf.int64),
}

def parse(record):
    ex = tf.io.parse_single_example(record, features)
    img = tf.io.decode_jpeg(ex["image"], channels=3)
    img = tf.image.resize(img, [32, 32]) / 255.0
    ids = tf.sparse.to_dense(ex["labels"])
    multi_hot = tf.reduce_sum(tf.one_hot(ids, NUM_LABELS), axis=0)
    return img, multi_hot

train_ds = tf.data.TFRecordDataset("data/scenes/train.tfrecord").map(parse).shuffle(300).batch(32).prefetch(2)
val_ds = tf.data.TFRecordDataset("data/scenes/val.tfrecord").map(parse).batch(32)

inputs = tf.keras.Input((32, 32, 3))
x = tf.keras.layers.Conv2D(16, 3, activation="relu", padding="same")(inputs)
x = tf.keras.layers.MaxPooling2D()(x)
x = tf.keras.layers.Conv2D(32, 3, activation="relu", padding="same")(x)
x = tf.keras.layers.MaxPooling2D()(x)
x = tf.keras.layers.Flatten()(x)
outputs = tf.keras.layers.Dense(NUM_LABELS, activation="sigmoid")(x)
model = tf.keras.Model(inputs, outputs)

model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
model.fit(train_ds, epochs=8, validation_data=val_ds)
